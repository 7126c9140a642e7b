"""Seeds pair the arms of a gate; the best attempt is kept, not the last."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from loopeng.attempt.best import best_attempt, sample_result
from loopeng.attempt.seeds import attempt_seed
from tests.loopeng.attempt.making import make_attempt

SMALL = st.integers(0, 2**31)
KEYS = st.tuples(SMALL, st.text(max_size=8), st.integers(0, 9), st.integers(0, 9))
JUDGED = st.tuples(st.sampled_from(["pass", "fail", "error"]), st.one_of(st.none(), st.floats(0, 1)))


@given(KEYS, KEYS)
@settings(max_examples=300, deadline=None)
def test_a_seed_is_a_63_bit_number_equal_for_equal_keys_only(one: tuple, other: tuple) -> None:
    assert 0 <= attempt_seed(*one) < 2**63
    assert (attempt_seed(*one) == attempt_seed(*other)) == (one == other)


def test_neighbouring_keys_do_not_share_a_seed() -> None:
    """A sum or a joined text of the parts would collide here: ("a", 1) + 1, "a1" + 1, ..."""
    seeds = {
        attempt_seed(run, sample, index, repeat)
        for run in range(5)
        for sample in ("a", "a1", "a,1", '"a"')
        for index in range(12)
        for repeat in range(12)
    }
    assert len(seeds) == 5 * 4 * 12 * 12


def test_seeds_never_change() -> None:
    """Stored runs are reproduced from them."""
    assert attempt_seed(0, "mug", 0, 0) == 3075437251267624734


def rank_by_the_rules(attempts: list) -> int:
    """The obvious twin: pass > fail > error, then score, then the earlier one."""
    for verdict in ("pass", "fail", "error"):
        group = [attempt for attempt in attempts if attempt.verdict == verdict]
        if group:
            top = max((attempt.score if attempt.score is not None else -1) for attempt in group)
            return min(a.attempt_index for a in group if (a.score if a.score is not None else -1) == top)
    raise AssertionError


@given(st.lists(JUDGED, min_size=1, max_size=6), st.randoms())
@settings(max_examples=200, deadline=None)
def test_best_is_pass_then_score_then_earlier_whatever_the_order(judged: list, random: object) -> None:
    attempts = [make_attempt(i, verdict=verdict, score=score) for i, (verdict, score) in enumerate(judged)]
    expected = rank_by_the_rules(attempts)
    random.shuffle(attempts)  # type: ignore[attr-defined]
    assert best_attempt(attempts).attempt_index == expected
    result = sample_result(attempts, "gate")
    assert (result.best_attempt_index, result.num_attempts) == (expected, len(judged))
    assert result.first_verdict == judged[0][0]
    assert result.verdict == ("pass" if any(v == "pass" for v, _ in judged) else result.verdict)
