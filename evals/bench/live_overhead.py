"""What ``loop.attempt`` takes beyond generation, and whether that grows with what is recorded.

    python -m evals.bench.live_overhead [--calls 1000] [--sizes 0,10000,100000] [--output FILE]

Calls of an application with a ScriptedEngine, each timed from outside; what the engine took is subtracted. Before each
round the database is filled with recorded calls up to so many attempts. Two kinds of calls take turns: one whose first
answer passes, and one that fails at first and passes at the second attempt, a third of whose inputs are noted as
failures. Every call is committed to the disk (synchronous=FULL) before it returns.

Exits with 1 where a median is 10 ms or more, or the last round's is over one and a half times the first's.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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
    parser.add_argument("--calls", type=int, default=1000, help="timed in each round, of each kind")
    parser.add_argument("--sizes", default="0,10000,100000", help="attempts recorded before each round")
    parser.add_argument("--output", type=Path, default=ROOT / "evals/results/live_overhead.json")
    arguments = parser.parse_args()
    engine, sizes = TimedEngine(), [int(size) for size in arguments.sizes.split(",")]
    with tempfile.TemporaryDirectory() as folder, Loop.open(Path(folder) / "loop.db", engine=engine) as loop:
        _call(loop, engine, "kettle 0")  # imports, and the template
        rounds = [_round(loop, engine, size, arguments.calls) for size in sizes]
    growth = {kind: rounds[-1][kind]["median_ms"] / rounds[0][kind]["median_ms"] for kind in ("passes", "retried")}
    medians = [each[kind]["median_ms"] for each in rounds for kind in ("passes", "retried")]
    document = {
        "rounds": rounds,
        "growth": {kind: round(factor, 2) for kind, factor in growth.items()},
        "machine": {"python": sys.version.split()[0], "cpus": os.cpu_count(), "system": platform.platform()},
        "bar": {"max_median_ms": MAX_MEDIAN_MS, "max_growth": MAX_GROWTH},
        "passed": max(medians) < MAX_MEDIAN_MS and max(growth.values()) <= MAX_GROWTH,
    }
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    print(json.dumps({"medians_ms": medians, "growth": document["growth"], "passed": document["passed"]}))
    return 0 if document["passed"] else 1


def _round(loop: Loop, engine: TimedEngine, size: int, num_calls: int) -> dict[str, Any]:
    """Time calls of both kinds, one after the other."""
    _fill(loop, size)
    times: dict[str, list[float]] = {"passes": [], "retried": []}
    for number in range(num_calls):
        for kind, noun in (("passes", "kettle"), ("retried", "wordy kettle")):
            times[kind].append(_call(loop, engine, f"{noun} {number % NUM_INPUTS}"))
    found = {"num_attempts": _num_attempts(loop), **{kind: _summary(values) for kind, values in times.items()}}
    print(f"{found['num_attempts']:>8} attempts  passes {found['passes']}  retried {found['retried']}", flush=True)
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
