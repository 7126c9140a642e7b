from __future__ import annotations

from typing import Any

import pytest

from loopeng.errors import StoreError
from loopeng.schema import EvalResult, SampleResult, Usage
from loopeng.store import LoopStore

USAGE = Usage(prompt_tokens=10, generated_tokens=5, decode_passes=2, draft_tokens=9, accepted_tokens=3)


def test_an_attempt_comes_back_equal(store: LoopStore, make: Any) -> None:
    attempt = make.attempt(
        make.run().id,
        seed=2**64 - 1,
        temperature=0.4,
        policy="critique",
        text="“mug” \x00 {{ x }} \N{PILE OF POO}\n",
        token_ids=(1, 2, 3),
        trajectory=[{"tool": "search", "found": None}],
        usage=USAGE,
        latency_s=0.25,
        fingerprint="abc",
        duplicate_of=0,
        attempt_index=1,
        verdict="error",
        score=0.5,
        error="the judge broke",
        results=(
            EvalResult(evaluator="z", score=0.0, passed=False, reason="r", category="c", metadata={"words": [1, "x"]}),
            EvalResult(evaluator="a", error="ValueError: no"),
        ),
    )
    assert store.save_attempt(attempt)
    assert store.attempts(attempt.run_id) == [attempt]


def test_saving_twice_changes_nothing(store: LoopStore, make: Any) -> None:
    run = make.run()
    assert store.save_attempt(make.attempt(run.id, text="first")) is True
    assert store.save_attempt(make.attempt(run.id, text="second", results=())) is False
    (kept,) = store.attempts(run.id)
    assert kept.text == "first"
    assert len(kept.results) == 1
    assert store.run_usage(run.id)[0] == 1


def test_what_json_cannot_say_in_a_trajectory_does_not_lose_the_attempt(store: LoopStore, make: Any) -> None:
    attempt = make.attempt(make.run().id, trajectory={"step": object, "ratio": float("inf")})
    store.save_attempt(attempt)
    assert store.attempts(attempt.run_id)[0].trajectory == {"step": "<class 'object'>", "ratio": None}


def test_attempts_are_ordered_and_chosen_by_key(store: LoopStore, make: Any) -> None:
    run = make.run()
    keys = [(sample, repeat, index) for sample in ("s1", "s2") for repeat in (0, 1) for index in (0, 1, 2)]
    for sample, repeat, index in reversed(keys):
        store.save_attempt(make.attempt(run.id, sample_id=sample, repeat=repeat, attempt_index=index, text=sample))
    store.save_attempt(make.attempt(make.run().id))

    def found(*chosen: Any) -> list[tuple[str, int, int]]:
        return [(row.sample_id, row.repeat, row.attempt_index) for row in store.attempts(run.id, *chosen)]

    assert found() == keys
    assert found("s2") == keys[6:]
    assert found("s2", 0) == keys[6:9]
    assert found(None, 1) == [key for key in keys if key[1] == 1]
    assert all(len(attempt.results) == 1 for attempt in store.attempts(run.id))
    assert found("s3") == []


def test_an_attempt_without_a_run_is_refused_whole(store: LoopStore, make: Any) -> None:
    with pytest.raises(StoreError, match="FOREIGN KEY"):
        store.save_attempt(make.attempt("run-none"))
    assert store.attempts("run-none") == []


def test_usage_is_added_up_from_the_rows(store: LoopStore, make: Any) -> None:
    run = make.run()
    assert store.run_usage(run.id) == (0, Usage())
    for index in range(3):
        store.save_attempt(make.attempt(run.id, attempt_index=index, usage=USAGE))
    store.save_attempt(make.attempt(make.run().id, usage=USAGE))
    assert store.run_usage(run.id) == (3, USAGE + USAGE + USAGE)


def test_the_sums_of_a_run_are_those_over_its_attempts(store: LoopStore, make: Any) -> None:
    """The slow twin reads every row."""
    run = make.run()
    costs = [USAGE, Usage(generated_tokens=7, decode_passes=3), Usage(generated_tokens=1), Usage(prompt_tokens=4)]
    for index, (usage, verdict) in enumerate(zip(costs, ("pass", "error", "fail", "error"), strict=True)):
        store.save_attempt(make.attempt(run.id, attempt_index=index, usage=usage, verdict=verdict, latency_s=index / 4))
    attempts, totals = store.attempts(run.id), store.run_totals(run.id)
    assert (totals.num_attempts, totals.num_errors) == (4, sum(each.verdict == "error" for each in attempts))
    assert totals.usage == sum((each.usage for each in attempts), Usage())
    assert totals.latency_s == sum(each.latency_s for each in attempts) == 1.5
    decoded = [each.usage.generated_tokens - 1 for each in attempts if each.usage.decode_passes]
    assert totals.num_decoded_tokens == sum(decoded)
    assert store.run_totals("run-none").num_attempts == 0


def test_a_sample_ends_once(store: LoopStore, make: Any) -> None:
    run = make.run()
    ended = SampleResult(
        run_id=run.id,
        sample_id="s1",
        split="reflect",
        first_verdict="fail",
        verdict="pass",
        score=1.0,
        best_attempt_index=1,
        num_attempts=2,
    )
    assert store.save_sample_result(ended) is True
    assert store.save_sample_result(ended.model_copy(update={"verdict": "fail"})) is False
    other = ended.model_copy(update={"sample_id": "s0", "score": None})
    assert store.save_sample_result(other) is True
    assert store.sample_results(run.id) == [other, ended]
