"""What drafting from text costs: time per observed token and per draft, on real text, one JSON line.

Wall-clock time, so run nothing beside it: a thread's processor time is not counted truly on every virtual machine.

    python evals/bench/suffix.py --text FILE [--model smollm2-135m]

The text is read three times: as prompt, as reference text and as the output, over a full memory of the same kind of
text, so that every part of the drafter works. Any long text will do, for example a source file of this project.
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import statistics
import time
from pathlib import Path

from specdec_core.drafters import DraftContext, DraftMemory
from specdec_core.drafters.suffix import SuffixDrafter
from specdec_core.loading import fetch
from specdec_core.sampling import LogitsPipeline, SamplingParams
from specdec_core.tokenizer import TransformersTokenizer

ROOT = Path(__file__).parent.parent.parent
NUM_TOKENS = 2000
MAX_DRAFT = 31


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", type=Path, help="default: source files of this project")
    parser.add_argument("--model", default="smollm2-135m", help="whose tokenizer")
    options = parser.parse_args()
    files = [options.text] if options.text else sorted((ROOT / "specdec_core").rglob("*.py"))
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    token_ids = tuple(TransformersTokenizer(fetch(options.model)).encode(text))
    print(json.dumps(measure(token_ids) | {"python": platform.python_version(), "model": options.model}))


def measure(token_ids: tuple[int, ...]) -> dict[str, float]:
    output, rest = token_ids[:NUM_TOKENS], token_ids[NUM_TOKENS:]
    if len(rest) < NUM_TOKENS:
        raise SystemExit(f"the text has {len(token_ids)} tokens: give one of at least {2 * NUM_TOKENS}")
    memory = DraftMemory()
    remembering = []
    for start in range(0, len(rest), NUM_TOKENS):
        part = rest[start : start + NUM_TOKENS]
        started = time.perf_counter()
        memory.add(part)
        remembering.append((time.perf_counter() - started) / len(part))
    edited = tuple(token for place, token in enumerate(output) if place % 40)  # an attempt that differs
    drafter = SuffixDrafter()
    started = time.perf_counter()
    drafter.begin(DraftContext(rest[:NUM_TOKENS], (edited,), LogitsPipeline(SamplingParams()), memory=memory))
    beginning = (time.perf_counter() - started) / (len(edited) + NUM_TOKENS)
    observing, proposing = [], []
    gc.collect()
    for token_id in output:
        started = time.perf_counter()
        drafter.observe((token_id,))
        observed = time.perf_counter()
        drafter.propose(MAX_DRAFT)
        observing.append(observed - started)
        proposing.append(time.perf_counter() - observed)
    return {
        "num_output_tokens": len(output),
        "num_memory_tokens": len(memory),
        "observe_us_per_token": _us(statistics.median(observing)),
        "observe_us_per_token_mean": _us(statistics.fmean(observing)),
        "begin_us_per_token": _us(beginning),
        "remember_us_per_token": _us(statistics.median(remembering)),
        "propose_us": _us(statistics.median(proposing)),
        "propose_us_p99": _us(sorted(proposing)[len(proposing) * 99 // 100]),
        "propose_us_longest": _us(max(proposing)),
    }


def _us(seconds: float) -> float:
    return round(seconds * 1e6, 1)


if __name__ == "__main__":
    main()
