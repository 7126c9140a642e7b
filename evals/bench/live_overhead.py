"""What ``loop.attempt`` takes beyond generation, and whether that grows with what is recorded.

    python -m evals.bench.live_overhead [--calls 1000] [--sizes 0,10000,100000] [--output FILE]

Calls of an application with a ScriptedEngine, each timed from outside; what the engine took is subtracted. There is a
database for each size, filled with recorded calls up to so many attempts; they take turns. So do two kinds of calls:
one whose first answer passes, and one that fails at first and passes at the second attempt, a third of whose inputs are
noted as failures. Every call is committed to the disk (synchronous=FULL) before it returns.

Exits with 1 where a median is 10 ms or more, or the last database's is over one and a half times the first's.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evals.bench.machine import machine
from evals.bench.timing import rotated
from loopeng import Loop, TextReply, TextRequest
from loopeng.engines.scripted import ScriptedEngine
from loopeng.live import live_sample
from loopeng.live.redaction import Redactor
from loopeng.schema import utc_now
from loopeng.store import LiveCall, LiveSource

ROOT = Path(__file__).parent.parent.parent
TEMPLATE = "Describe {{ product }}{{ rules }}"
SPECS = [{"id": "short", "type": "length", "max_words": 5}, {"id": "one", "type": "sentences", "max": 1}]
MAX_MEDIAN_MS = 10.0
MAX_GROWTH = 1.5
NUM_INPUTS = 500  # distinct ones, so that most calls are repeats
BATCH = 500
KINDS = {"passes": "kettle", "retried": "wordy kettle"}


class TimedEngine(ScriptedEngine):
    """Knows how long it took."""

    def __init__(self) -> None:
        super().__init__(_answer)
        self.time_s = 0.0

    def generate(self, request: TextRequest) -> TextReply:
        started = time.perf_counter()
        reply = super().generate(request)
        self.time_s += time.perf_counter() - started
        return reply


def _answer(request: TextRequest) -> str:
    prompt = request.messages[-1].content
    wordy = "wordy" in prompt and "mended" not in prompt and len(prompt) < 100
    return "This is a very fine thing. It is good for everything." if wordy else "A fine thing."


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=1000, help="timed in each database, of each kind")
    parser.add_argument("--sizes", default="0,10000,100000", help="attempts recorded before, in a database each")
    parser.add_argument("--output", type=Path, default=ROOT / "evals/results/live_overhead.json")
    arguments = parser.parse_args()
    engine, sizes = TimedEngine(), [int(size) for size in arguments.sizes.split(",")]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        loops = [stack.enter_context(Loop.open(folder / f"{size}.db", engine=engine)) for size in sizes]
        for loop, size in zip(loops, sizes, strict=True):
            _call(loop, engine, "kettle 0")  # imports, and the template
            _fill(loop, size)
        rounds = _rounds(loops, engine, arguments.calls)
    growth = {kind: rounds[-1][kind]["median_ms"] / rounds[0][kind]["median_ms"] for kind in KINDS}
    medians = [each[kind]["median_ms"] for each in rounds for kind in KINDS]
    document = {
        "databases": rounds,
        "growth": {kind: round(factor, 2) for kind, factor in growth.items()},
        "bar": {"max_median_ms": MAX_MEDIAN_MS, "max_growth": MAX_GROWTH},
        "passed": max(medians) < MAX_MEDIAN_MS and max(growth.values()) <= MAX_GROWTH,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        **machine(),
    }
    arguments.output.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    print(json.dumps({"medians_ms": medians, "growth": document["growth"], "passed": document["passed"]}))
    return 0 if document["passed"] else 1


def _rounds(loops: Sequence[Loop], engine: TimedEngine, num_calls: int) -> list[dict[str, Any]]:
    """Time calls of both kinds, one after the other; the databases take turns call by call."""
    times: list[dict[str, list[float]]] = [{kind: [] for kind in KINDS} for _ in loops]
    for number in range(num_calls):
        for index, loop in rotated(list(enumerate(loops)), number):
            for kind, noun in KINDS.items():
                times[index][kind].append(_call(loop, engine, f"{noun} {number % NUM_INPUTS}"))
    found = [
        {"num_attempts": _num_attempts(loop), **{kind: _summary(values) for kind, values in of_loop.items()}}
        for loop, of_loop in zip(loops, times, strict=True)
    ]
    for each in found:
        print(f"{each['num_attempts']:>8} attempts  passes {each['passes']}  retried {each['retried']}", flush=True)
    return found


def _call(loop: Loop, engine: TimedEngine, product: str) -> float:
    """Seconds beyond generation."""
    engine.time_s = 0.0
    started = time.perf_counter()
    result = loop.attempt("describe", {"product": product}, evaluators=SPECS, template=TEMPLATE)
    elapsed_s = time.perf_counter() - started - engine.time_s
    assert result.passed, result
    return elapsed_s


def _summary(times_s: Sequence[float]) -> dict[str, float]:
    ordered = sorted(times_s)
    return {
        "median_ms": round(1000 * statistics.median(ordered), 3),
        "p95_ms": round(1000 * ordered[int(0.95 * len(ordered))], 3),
        "max_ms": round(1000 * ordered[-1], 3),
    }


def _num_attempts(loop: Loop) -> int:
    return sum(loop.store.run_totals(run.id).num_attempts for run in loop.store.runs(kind="live", limit=None))


def _fill(loop: Loop, size: int) -> None:
    """Record copies of a call, as calls do but many in one step, until there are ``size`` attempts."""
    (run, *_) = loop.store.runs(kind="live")
    attempt = loop.store.attempts(run.id)[0]
    result = loop.store.sample_results(run.id)[0]
    source = LiveSource(
        loop.store.task(run.task_hash), loop.store.prompt_version(run.prompt_version_id), run.seed, run.engine
    )
    assert source.run(run.created_at).id == run.id
    for start in range(_num_attempts(loop), size, BATCH):
        calls = []
        for number in range(start, min(start + BATCH, size)):
            sample = live_sample({"product": f"kettle {number % NUM_INPUTS}"}, Redactor())
            change = {"sample_id": sample.id}
            copies = (attempt.model_copy(update=change),)
            end = result.model_copy(update=change | {"split": sample.split})
            calls.append(LiveCall(uuid.uuid4().hex, source, sample, utc_now(), None, copies, end))
        assert loop.store.save_live_calls(calls).refused == {}


if __name__ == "__main__":
    raise SystemExit(main())
