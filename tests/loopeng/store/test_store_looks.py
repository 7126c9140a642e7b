"""The alpha ledger: however often a prompt is tested on the same samples, the tests spend alpha_total together."""

from __future__ import annotations

import multiprocessing
import shutil
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopeng.errors import ConflictError, UsageError
from loopeng.schema import Look
from loopeng.store import LoopStore
from loopeng.store.looks import connected_looks, next_look_number

ALPHA = 0.05


def reserve(store: LoopStore, proposal_id: str, keys: Collection[str], revision: int = 1) -> Look | None:
    return store.reserve_look(
        prompt_name="describe",
        dataset="products.jsonl",
        proposal_id=proposal_id,
        revision=revision,
        alpha_total=ALPHA,
        sample_keys=keys,
    )


def number(look: Look | None) -> int:
    assert look is not None
    return look.number


@pytest.fixture
def ids(make: Any) -> list[str]:
    """Of proposals with two revisions each."""
    proposals = [make.proposal() for _ in range(6)]
    for proposal in proposals:
        make.store.save_revision(make.revision(proposal))
        make.store.save_revision(make.revision(proposal, 2, rule="other words"))
    return [proposal.id for proposal in proposals]


def test_looks_at_shared_samples_are_numbered_on_and_each_may_spend_less(store: LoopStore, ids: list[str]) -> None:
    looks = [reserve(store, proposal_id, {"a", "b"}) for proposal_id in ids[:3]]
    assert [number(look) for look in looks] == [1, 2, 3]
    assert [look.alpha for look in looks if look] == pytest.approx([0.025, 0.05 / 6, 0.05 / 12])
    assert store.looks("describe") == looks and store.looks("another") == []
    assert store.look(ids[1], 1) == looks[1] and store.look(ids[1], 2) is None


def test_a_second_call_returns_the_first_look_whatever_it_asks_for(store: LoopStore, ids: list[str]) -> None:
    """A process that was killed after reserving comes again: it must not spend twice."""
    first = reserve(store, ids[0], {"a"})
    assert reserve(store, ids[0], {"b"}) == first and len(store.looks("describe")) == 1
    assert number(reserve(store, ids[0], {"a"}, revision=2)) == 2  # an edit is another test


def test_samples_nobody_looked_at_start_again(store: LoopStore, ids: list[str]) -> None:
    assert number(reserve(store, ids[0], {"a", "b"})) == 1
    assert number(reserve(store, ids[1], {"b", "c"})) == 2
    assert number(reserve(store, ids[2], {"c", "d"})) == 3  # shares nothing with the first, but with the second
    assert number(reserve(store, ids[3], {"x"})) == 1


def test_a_void_look_gives_its_number_back_and_connects_nothing(store: LoopStore, ids: list[str]) -> None:
    reserve(store, ids[0], {"a", "b"})
    assert number(reserve(store, ids[1], {"b", "c"})) == 2
    store.void_look(ids[0], 1)
    store.void_look(ids[0], 1)
    store.void_look(ids[5], 1)  # none there
    assert [look.void for look in store.looks("describe")] == [True, False]
    assert number(reserve(store, ids[2], {"c"})) == 1
    assert number(reserve(store, ids[3], {"a"})) == 1
    with pytest.raises(ConflictError, match="is void; test a new revision"):
        reserve(store, ids[0], {"a"})


def test_sets_that_were_tested_apart_and_are_joined_have_nothing_left(store: LoopStore, ids: list[str]) -> None:
    """Each spent half of alpha by itself: a third test on all of it would make more than alpha."""
    assert number(reserve(store, ids[0], {"a"})) == number(reserve(store, ids[1], {"b"})) == 1
    assert reserve(store, ids[2], {"a", "b"}) is None
    assert store.look(ids[2], 1) is None and number(reserve(store, ids[2], {"a"})) == 2


def test_a_look_at_nothing_is_refused(store: LoopStore, ids: list[str]) -> None:
    with pytest.raises(UsageError, match="at least one sample"):
        reserve(store, ids[0], ())


def _reserve_in_a_process(path: Path, proposal_id: str) -> int:
    with LoopStore.open(path) as store:
        return number(reserve(store, proposal_id, {"a"}))


def test_threads_and_processes_get_different_numbers(store: LoopStore, database_path: Path, ids: list[str]) -> None:
    with ThreadPoolExecutor(3) as pool:
        numbers = list(pool.map(lambda proposal_id: number(reserve(store, proposal_id, {"a"})), ids[:3]))
    with multiprocessing.get_context("spawn").Pool(2) as processes:
        numbers += processes.starmap(_reserve_in_a_process, [(database_path, proposal_id) for proposal_id in ids[3:]])
    assert sorted(numbers) == [1, 2, 3, 4, 5, 6]


KEYS = st.sets(st.sampled_from("abcdefgh"), min_size=1, max_size=4)
STEPS = st.lists(st.one_of(KEYS, st.integers(0, 11)), max_size=30)


def spent(looks: list[Look], keys: Collection[str]) -> float:
    return sum(look.alpha for look in connected_looks(looks, keys))


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_no_component_ever_spends_more_than_alpha(steps: list[set[str] | int]) -> None:
    """A set is a new look at it, a number voids that look, if it is there."""
    looks: list[Look] = []
    for step in steps:
        if isinstance(step, int):
            looks = [look.model_copy(update={"void": look.void or place == step}) for place, look in enumerate(looks)]
        elif (free := next_look_number(looks, step)) is not None:
            looks.append(
                Look(
                    prompt_name="p", dataset="d", proposal_id=f"prop-{len(looks)}", revision=1, number=free,
                    alpha_total=ALPHA, sample_keys=tuple(step), created_at=datetime(2026, 1, 1, tzinfo=UTC),
                )
            )  # fmt: skip
        assert all(spent(looks, look.sample_keys) <= ALPHA + 1e-12 for look in looks if not look.void)


@settings(max_examples=15, deadline=None)
@given(STEPS)
def test_nor_does_one_in_the_database(empty_database: Path, tmp_path_factory: Any, steps: list[set[str] | int]) -> None:
    path = tmp_path_factory.mktemp("ledger") / "loop.db"
    shutil.copyfile(empty_database, path)
    with LoopStore.open(path) as store:
        proposals = _proposals(store, len(steps))
        for place, step in enumerate(steps):
            if isinstance(step, int):
                store.void_look(proposals[step % len(steps)], 1)
            else:
                expected = next_look_number(store.looks("describe"), step)
                kept = reserve(store, proposals[place], step)
                assert (kept and kept.number) == expected
        looks = store.looks("describe")
        assert all(spent(looks, look.sample_keys) <= ALPHA + 1e-12 for look in looks if not look.void)


def _proposals(store: LoopStore, count: int) -> list[str]:
    from tests.loopeng.store.conftest import Clock, Maker

    make = Maker(store, Clock())
    proposals = [make.proposal(expires_in_days=None) for _ in range(count)]
    for proposal in proposals:
        store.save_revision(make.revision(proposal))
    return [proposal.id for proposal in proposals]
