"""Put the loop in an app: answers within the loop, streamed answers that it only watches, and both are learned from.

    python evals/examples/app.py mug --stream "desk lamp"
    loopeng propose live:describe --db evals/examples/.loopeng/app.db

The second line makes proposals of what was recorded: inputs are samples, those of the reflect split show mistakes, and
a rule is tested on those of the gate split. Once somebody has approved it, both kinds of answers go by it.
"""

from __future__ import annotations

import argparse
from functools import cache
from pathlib import Path

from loopeng import LiveSettings, Loop
from specdec_core import Engine, GenerationRequest, SamplingParams, load_engine

DATABASE = Path(__file__).parent / ".loopeng" / "app.db"
PROMPT = "describe"
TEMPLATE = "Describe this product of our shop in one short sentence: {{ product }}{{ rules }}"
EVALUATORS = [
    {"id": "short", "type": "length", "max_words": 25},
    {"id": "names-it", "type": "contains", "value": "{{ product }}", "ignore_case": True},
]
RECORDING = LiveSettings(keep_days=30, redact=[r"\S+@\S+"])  # texts go after a month, addresses are never written


def answer(loop: Loop, product: str) -> str:
    """The best of up to three attempts, each told what was wrong with the one before."""
    inputs, model = {"product": product}, {"model": "smollm2-135m", "max_tokens": 40}
    return loop.attempt(PROMPT, inputs, template=TEMPLATE, evaluators=EVALUATORS, engine=model).text


@cache
def own_engine() -> Engine:
    return load_engine("smollm2-135m")


def stream(loop: Loop, product: str) -> None:
    """Print an answer as it grows. It has been read by then: it can be recorded, not tried again."""
    instructions = loop.instructions(PROMPT, {"product": product}, template=TEMPLATE)  # with the rules learned so far
    messages = [{"role": "user", "content": instructions.text}]
    request = GenerationRequest(messages=messages, sampling=SamplingParams(max_tokens=40))
    pieces = []
    for chunk in own_engine().stream(request):
        print(chunk.text, end="", flush=True)
        pieces.append(chunk.text)
    print()
    loop.observe(PROMPT, {"product": product}, "".join(pieces), evaluators=EVALUATORS, version=instructions.version)


def main() -> None:
    parser = argparse.ArgumentParser(description="Describe products.")
    parser.add_argument("products", nargs="*")
    parser.add_argument("--stream", metavar="PRODUCT", action="append", default=[])
    options = parser.parse_args()
    with Loop.open(DATABASE, live=RECORDING) as loop:
        for product in options.products:
            print(answer(loop, product))
        for product in options.stream:
            stream(loop, product)


if __name__ == "__main__":
    main()
