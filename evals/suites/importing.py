"""Turns a public data file into the samples of a suite here.

    python -m evals.suites.importing gsm8k FILE [--limit N]

writes evals/suites/gsm8k/samples.jsonl, which the suite's task.yaml reads and git ignores. FILE is as its authors
publish it: JSON, one object a line, or one JSON list. A suite's importer is a function from those rows to samples.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from evals.suites.gsm8k.importer import gsm8k_samples
from evals.suites.humaneval.importer import humaneval_samples
from evals.suites.ifeval.importer import ifeval_samples
from evals.suites.mbpp.importer import mbpp_samples

SUITES = Path(__file__).parent

Rows = Iterable[Mapping[str, Any]]
Importer = Callable[[Rows], Rows]
"""From the rows of a file to samples: an id, the inputs and, where there is one, the target, each under its name."""

IMPORTERS: dict[str, Importer] = {
    "gsm8k": gsm8k_samples,
    "humaneval": humaneval_samples,
    "ifeval": ifeval_samples,
    "mbpp": mbpp_samples,
}


class ImportFailure(Exception):
    """The file cannot be made into samples; the message says why."""


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The objects of a file, one a line or all in one list. Raises ImportFailure."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ImportFailure(f"{path} cannot be read: {error}") from None
    if text.lstrip().startswith("["):
        rows = _parsed(text, str(path))
    else:
        lines = enumerate(text.split("\n"), start=1)
        rows = [_parsed(line, f"{path}:{number}") for number, line in lines if line.strip()]
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise ImportFailure(f"{path} must hold JSON objects, one a line or all in one list")
    return rows


def _parsed(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ImportFailure(f"{place}: this is not JSON: {error}") from None


def make_samples(name: str, rows: Sequence[Mapping[str, Any]], limit: int | None = None) -> list[Mapping[str, Any]]:
    """The first ``limit`` samples, or all. Raises ImportFailure where the rows are not those of this suite."""
    try:
        return list(islice(IMPORTERS[name](rows), limit))
    except KeyError as error:
        raise ImportFailure(f"this is not the data of {name}: a row has no {error.args[0]!r}") from None
    except (ValueError, TypeError) as error:
        raise ImportFailure(f"this is not the data of {name}: {error}") from None


def write_samples(samples: Iterable[Mapping[str, Any]], path: Path) -> None:
    """One sample a line."""
    lines = (json.dumps(sample, ensure_ascii=False) + "\n" for sample in samples)
    path.write_text("".join(lines), encoding="utf-8")


def main(arguments: Sequence[str] | None = None, suites: Path = SUITES) -> int:
    """Import one file. 0, or 2 where it cannot be."""
    parser = argparse.ArgumentParser(prog="python -m evals.suites.importing", description="Make a suite's samples.")
    parser.add_argument("suite", choices=sorted(IMPORTERS))
    parser.add_argument("file", type=Path, help="the data as its authors publish it")
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N samples")
    given = parser.parse_args(arguments)
    if given.limit is not None and given.limit < 1:
        parser.error("--limit must be at least 1")
    path = suites / given.suite / "samples.jsonl"
    try:
        samples = make_samples(given.suite, read_rows(given.file), given.limit)
        write_samples(samples, path)
    except (ImportFailure, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{len(samples)} samples in {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
