"""A real database file, a clock that tests can move, and nouns to put in."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from loopeng.prompts import text_hash
from loopeng.schema import (
    Attempt,
    EvalResult,
    GateReport,
    Message,
    PairedCount,
    PromptVersion,
    Proposal,
    Revision,
    Rule,
    RuleOperation,
    Run,
    SampleResult,
    Task,
    Watch,
)
from loopeng.store import LoopStore

TEMPLATE = "Describe {{ product }}{{ rules }}"


@dataclass
class Clock:
    """Time that stands still until told to go on."""

    now: datetime = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def advance(self, **by: float) -> None:
        self.now += timedelta(**by)


@dataclass
class Maker:
    """Short ways to nouns; those with ids are in the store already."""

    store: LoopStore
    clock: Clock
    prompt_name: str = "describe"

    def task(self, **changes: Any) -> Task:
        keys = {
            "version": 1,
            "name": "shop",
            "prompt": {"name": self.prompt_name, "template": TEMPLATE},
            "dataset": {"samples": [{"product": "mug"}]},
            "evaluators": [{"id": "short", "type": "length", "max_words": 25}],
            "template": TEMPLATE,
            "samples": [{"id": "s1", "inputs": {"product": "mug"}, "split": "reflect"}],
        }
        return Task.model_validate(keys | changes)

    def head(self) -> PromptVersion:
        return self.store.adopt_template(self.prompt_name, TEMPLATE, by="file")[0]

    def run(self, **changes: Any) -> Run:
        arguments: dict[str, Any] = {"kind": "suite", "task": self.task(), "version": self.head(), "seed": 0}
        return self.store.create_run(**(arguments | changes))

    def attempt(self, run_id: str, **changes: Any) -> Attempt:
        fields: dict[str, Any] = {
            "run_id": run_id,
            "sample_id": "s1",
            "seed": 7,
            "messages": (Message(role="user", content="Describe a mug"),),
            "text": "A mug.",
            "verdict": "pass",
            "results": (EvalResult(evaluator="short", score=1.0, passed=True),),
            "created_at": self.clock(),
        }
        return Attempt(**(fields | changes))

    def sample_result(self, run_id: str, **changes: Any) -> SampleResult:
        fields: dict[str, Any] = {
            "run_id": run_id,
            "sample_id": "s1",
            "split": "reflect",
            "first_verdict": "fail",
            "verdict": "fail",
            "score": None,
            "best_attempt_index": 0,
            "num_attempts": 1,
        }
        return SampleResult(**(fields | changes))

    def pattern(self, fingerprint: str = "v1:long", *, run: Run | None = None, sample_id: str = "s1") -> str:
        run = run or self.run()
        return self.store.record_occurrence(
            prompt_name=run.prompt_name,
            prompt_version_id=run.prompt_version_id,
            run_id=run.id,
            sample_id=sample_id,
            fingerprint=fingerprint,
            evaluator="short",
            category="length.too_long",
            reason="31 words, at most 25",
            remedy="Use at most 20 words.",
            fault_side="model",
        )

    def revision(self, proposal: Proposal, number: int = 1, rule: str = "Use at most 20 words.") -> Revision:
        rules = (Rule(id="r1", text=rule),)
        return Revision(
            proposal_id=proposal.id,
            revision=number,
            operations=(RuleOperation(op="add", text=rule),),
            rules=rules,
            text_hash=text_hash(TEMPLATE, rules),
            rationale="too long in most samples",
            author="hints",
            created_at=self.clock(),
        )

    def proposal(self, *, pattern_ids: tuple[str, ...] = (), expires_in_days: float | None = 7) -> Proposal:
        expires_at = None if expires_in_days is None else self.clock() + timedelta(days=expires_in_days)
        return self.store.create_proposal(
            task=self.task(), base=self.head(), pattern_ids=pattern_ids, expires_at=expires_at
        )

    def pending(self, *, pattern_ids: tuple[str, ...] = (), rule: str = "Use at most 20 words.") -> Proposal:
        proposal = self.proposal(pattern_ids=pattern_ids)
        self.store.save_revision(self.revision(proposal, rule=rule))
        assert self.store.move_proposal(proposal.id, to="pending", frm={"drafting"})
        return self.store.proposal(proposal.id)

    def seen(self, proposal: Proposal) -> dict[str, Any]:
        revision = self.store.revision(proposal.id)
        return {"proposal_id": proposal.id, "revision": revision.revision, "seen_hash": revision.text_hash[:8]}

    def committed(self, *, pattern_ids: tuple[str, ...] = (), rule: str = "Use at most 20 words.") -> PromptVersion:
        proposal = self.pending(pattern_ids=pattern_ids, rule=rule)
        self.store.decide(action="approve", by="ana", **self.seen(proposal))
        version = self.store.commit_proposal(proposal.id)
        assert version is not None
        return version

    def gate_report(self, proposal: Proposal, **changes: Any) -> GateReport:
        pairs = PairedCount(num_pairs=20, both_passed=5, fixed=10, broken=1, both_failed=4)
        fields: dict[str, Any] = {
            "proposal_id": proposal.id,
            "revision": 1,
            "split": "gate",
            "verdict": "pass",
            "pairs": pairs,
            "by_evaluator": {"short": pairs},
            "fixed_samples": ("s1",),
            "created_at": self.clock(),
        }
        return GateReport(**(fields | changes))

    def watch(self, version: PromptVersion, proposal: Proposal, pattern_id: str) -> Watch:
        return Watch(
            prompt_version_id=version.id, pattern_id=pattern_id, proposal_id=proposal.id, rate_before=0.8,
            rate_after=0.1, upper_bound=1.0, created_at=self.clock(),
        )  # fmt: skip


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def database_path(tmp_path: Path) -> Path:
    return tmp_path / "loop.db"


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database as open() makes it, made once: migrating is the slow part."""
    path = tmp_path_factory.mktemp("store") / "empty.db"
    LoopStore.open(path).close()
    return path


@pytest.fixture
def store(empty_database: Path, database_path: Path, clock: Clock) -> Iterator[LoopStore]:
    shutil.copyfile(empty_database, database_path)
    with LoopStore.open(database_path, clock=clock) as opened:
        yield opened


@pytest.fixture
def make(store: LoopStore, clock: Clock) -> Maker:
    return Maker(store, clock)
