from __future__ import annotations

from typing import Any

import pytest

from loopeng.errors import NotFoundError
from loopeng.store import LoopStore


def test_a_pattern_is_made_once_and_known_by_its_fingerprint(store: LoopStore, make: Any) -> None:
    pattern_id = make.pattern()
    assert make.pattern() == pattern_id
    (pattern,) = store.patterns("describe")
    assert (pattern.id, pattern.fingerprint, pattern.category) == (pattern_id, "v1:long", "length.too_long")
    assert (pattern.state, pattern.remedy, pattern.fault_side) == ("open", "Use at most 20 words.", "model")
    assert make.pattern("v1:other") != pattern_id


def test_an_occurrence_counts_once_per_run_and_sample(store: LoopStore, make: Any) -> None:
    """Three retries of one sample are one failure (PortOS#2615)."""
    first, second = make.run(), make.run()
    for run, sample in [(first, "s1"), (first, "s1"), (first, "s1"), (first, "s2"), (second, "s1")]:
        pattern_id = make.pattern(run=run, sample_id=sample)
    pattern = store.pattern(pattern_id)
    assert (pattern.num_occurrences, pattern.num_samples) == (3, 2)
    assert sorted(store.occurrences(pattern_id)) == sorted([(first.id, "s1"), (first.id, "s2"), (second.id, "s1")])


def test_counts_are_those_under_the_current_head(store: LoopStore, make: Any) -> None:
    before = make.run()
    pattern_id = make.pattern(run=before)
    head = make.committed(pattern_ids=(pattern_id,))
    assert store.pattern(pattern_id).num_occurrences == 0
    after = make.run(version=head)
    make.pattern(run=after)
    make.pattern(run=after, sample_id="s2")
    assert store.pattern(pattern_id).num_occurrences == 2
    assert store.occurrences(pattern_id, prompt_version_id=head.id) == [(after.id, "s1"), (after.id, "s2")]
    assert len(store.occurrences(pattern_id)) == 3


def test_the_most_frequent_pattern_comes_first(store: LoopStore, make: Any) -> None:
    run = make.run()
    rare, frequent = make.pattern("rare", run=run), make.pattern("frequent", run=run)
    make.pattern("frequent", run=run, sample_id="s2")
    assert [pattern.id for pattern in store.patterns()] == [frequent, rare]
    assert store.patterns("other") == []


def test_failing_samples_show_their_patterns(store: LoopStore, make: Any) -> None:
    run = make.run()
    long, short = make.pattern("long", run=run), make.pattern("short", run=run)
    make.pattern("long", run=run, sample_id="s2")
    make.pattern("long", run=make.run())
    shown = {(failure.sample_id, failure.pattern_id) for failure in store.failures_under(run.prompt_version_id)}
    assert shown == {("s1", long), ("s1", short), ("s2", long)}
    assert store.failures_under("ver-none") == []


def test_a_state_can_be_set(store: LoopStore, make: Any) -> None:
    pattern_id = make.pattern()
    store.set_pattern_state(pattern_id, "muted")
    store.set_pattern_state(pattern_id, "muted")
    assert store.pattern(pattern_id).state == "muted"


def test_an_unknown_pattern_is_not_found(store: LoopStore) -> None:
    for ask in (store.pattern, store.occurrences, lambda name: store.set_pattern_state(name, "open")):
        with pytest.raises(NotFoundError, match="no failure pattern 'pat-none'"):
            ask("pat-none")
