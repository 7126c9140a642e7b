"""Put the loop in an app: answers within the loop, streamed answers that it only watches, and both are learned from.

    python evals/examples/app.py mug --stream "desk lamp"
    loopeng propose live:describe --db evals/examples/.loopeng/app.db

The second line makes proposals of what was recorded: inputs are samples, those of the reflect split show mistakes, and
a rule is tested on those of the gate split where ``loop.attempt`` made most of the failures (streamed answers cannot be
made again). Once somebody has approved it, both kinds of answers go by it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from loopeng import LiveSettings, Loop
from loopeng.engines.specdec import SpecDecEngine
from loopeng.schema.task import EngineSpec
from specdec_core import GenerationRequest, SamplingParams

DATABASE = Path(__file__).parent / ".loopeng" / "app.db"
PROMPT = "describe"
TEMPLATE = "Describe this product of our shop in one short sentence: {{ product }}{{ rules }}"
EVALUATORS = [
    {"id": "short", "type": "length", "max_words": 25},
    {"id": "names-it", "type": "contains", "value": "{{ product }}", "ignore_case": True},
]
RECORDING = LiveSettings(keep_days=30, redact=[r"\S+@\S+"])  # texts go after a month, addresses are never written


def answer(loop: Loop, product: str) -> str:
    """The best of up to three attempts; after the first, each is told what was wrong with the one before."""
    inputs, settings = {"product": product}, {"max_tokens": 40}
    return loop.attempt(PROMPT, inputs, template=TEMPLATE, evaluators=EVALUATORS, engine=settings).text


def stream(loop: Loop, engine: SpecDecEngine, product: str) -> None:
    """Print an answer as it grows. It has been read by then: it can be recorded, not tried again."""
    inputs = {"product": product}
    instructions = loop.instructions(PROMPT, inputs, template=TEMPLATE)  # with the rules learned so far
    messages = [{"role": "user", "content": instructions.text}]
    text = ""
    for chunk in engine.engine.stream(GenerationRequest(messages=messages, sampling=SamplingParams(max_tokens=40))):
        print(chunk.text, end="", flush=True)
        text += chunk.text
    print()
    loop.observe(PROMPT, inputs, text, evaluators=EVALUATORS, version=instructions.version)


def main() -> None:
    parser = argparse.ArgumentParser(description="Describe products.")
    parser.add_argument("products", nargs="*")
    parser.add_argument("--stream", metavar="PRODUCT", action="append", default=[])
    options = parser.parse_args()
    engine = SpecDecEngine.from_spec(EngineSpec(model="smollm2-135m"))  # one model in memory, for both ways
    with Loop.open(DATABASE, engine=engine, live=RECORDING) as loop:
        for product in options.products:
            print(answer(loop, product))
        for product in options.stream:
            stream(loop, engine, product)


if __name__ == "__main__":
    main()
