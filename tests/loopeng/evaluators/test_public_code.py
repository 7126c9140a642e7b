"""Scores against public benchmarks: every reference solution passes, an empty one never."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from loopeng.errors import SandboxError
from loopeng.evaluators import build_evaluators, run_evaluators
from loopeng.sandbox import choose_tier
from loopeng.schema import EvalResult
from tests.loopeng.evaluators.conftest import make_attempt, make_sample

DATA = Path(os.environ.get("SPECDEC_BENCH_DATA") or Path(__file__).parents[3].parent / "shared" / "data")
BOX = {"allow_unsandboxed": True, "timeout_s": 20}
HUMANEVAL = {
    "tests": "{{ test }}",
    "entry_point": "{{ entry_point }}",
    "setup": "{{ prompt }}",
    "prompt": "{{ prompt }}",
}
MBPP = {"tests": "{{ test_list }}", "setup": "{{ test_imports }}"}
# Of these problems the reference returns a match object of ``re``, and the tests look at its truth alone. An object of
# the candidate's does not travel: it could claim to be equal to anything.
MATCH_OBJECTS = (737, 787, 794)
Problems = list[dict[str, Any]]


def problems(name: str) -> Problems:
    path = DATA / name
    if not path.is_file():
        pytest.skip(f"{name} is not in {DATA}: name the folder in SPECDEC_BENCH_DATA")
    try:
        choose_tier(allow_unsandboxed=True)
    except SandboxError as error:
        pytest.skip(str(error))
    text = path.read_text(encoding="utf-8")
    found: Problems = json.loads(text) if path.suffix == ".json" else list(map(json.loads, text.splitlines()))
    return found


def results(data: Problems, answers: list[str], keys: dict[str, Any]) -> list[EvalResult]:
    (evaluator,) = build_evaluators([{"id": "tests", "type": "unit_tests", "sandbox": BOX, **keys}])

    def one(problem: dict[str, Any], answer: str) -> EvalResult:
        return run_evaluators([evaluator], make_sample(None, **problem), make_attempt(answer, problem["prompt"]))[0]

    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(one, data, answers))


def not_passed(data: Problems, answers: list[str], keys: dict[str, Any]) -> dict[str, str]:
    ended = zip(data, results(data, answers, keys), strict=True)
    return {problem["task_id"]: result.error or result.reason for problem, result in ended if not result.passed}


def test_a_handful_of_reference_solutions_pass() -> None:
    humaneval, mbpp = problems("humaneval.jsonl"), problems("mbpp_sanitized.json")
    some = [humaneval[index] for index in (0, 32, 38, 50, 129, 151)]  # helpers, loops, randomness
    assert not_passed(some, [each["canonical_solution"] for each in some], HUMANEVAL) == {}
    assert not_passed(mbpp[:6], [each["code"] for each in mbpp[:6]], MBPP) == {}
    empty = results(some, ["    return None\n"] * len(some), HUMANEVAL)
    assert [result.passed for result in empty] == [False] * len(some)


@pytest.mark.slow
def test_every_reference_solution_of_humaneval_passes_and_an_empty_one_never() -> None:
    data = problems("humaneval.jsonl")
    assert len(data) == 164
    assert not_passed(data, [each["canonical_solution"] for each in data], HUMANEVAL) == {}
    empty = results(data, ["    return None\n"] * len(data), HUMANEVAL)
    assert [result.passed for result in empty] == [False] * len(data)


@pytest.mark.slow
def test_every_reference_solution_of_mbpp_passes() -> None:
    data = problems("mbpp_sanitized.json")
    assert len(data) == 427
    assert set(not_passed(data, [each["code"] for each in data], MBPP)) == set(MATCH_OBJECTS)
