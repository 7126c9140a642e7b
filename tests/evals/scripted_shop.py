"""A scripted model for the shop's agent: it answers from memory until it is told to look things up."""

from __future__ import annotations

import json
import re
from typing import Any

from specdec_core.integrations.reply_form import call_text

TOLD = "Look up every product|A tool call is missing"  # by a rule, or by what was said of the last answer


def script(rows: list[dict[str, Any]], *, told: str = TOLD) -> dict[str, Any]:
    """Once told, it makes the expected calls of the question one by one and answers when all results are there."""
    untaught = {"when": rf"\A(?!.*(?:{told}))", "say": json.dumps({"final_answer": "About 40, I think."})}
    replies = [untaught] if told else []
    for row in rows:
        steps = [call_text([(call["name"], call["args"])]) for call in row["calls"]]
        steps.append(json.dumps({"final_answer": f"It is {row['target']}."}))
        for num_results, say in reversed(list(enumerate(steps))):
            replies.append({"when": rf"{re.escape(row['question'])}(?:.*Result of){{{num_results}}}", "say": say})
    return {"replies": replies}
