"""A plain function as agent.

    loopeng run evals/examples/own-agent/function.yaml

An agent takes an AgentContext. What ties it to the loop is ``context.engine``, which has the attempt's seed,
temperature and reference texts, and counts what it answers. ``context.messages`` is the prompt, on a retry as the
policy made it: under ``critique``, as here, with what was wrong.
"""

from __future__ import annotations

import json
from pathlib import Path

from loopeng import AgentContext

PRICES = json.loads((Path(__file__).parent / "prices.json").read_text(encoding="utf-8"))


def from_the_list(context: AgentContext) -> str:
    """Looks the price up itself; the model only words the answer."""
    fact = f"One {context.input['product']} costs {PRICES[context.input['product']]} euros."
    *before, asked = context.messages
    return context.engine.generate([*before, asked.model_copy(update={"content": f"{fact}\n\n{asked.content}"})]).text
