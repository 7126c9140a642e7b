"""Eight processes write one database for a minute: nobody meets a lock, and every count is exact afterwards."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from loopeng.store import LoopStore

NUM_PROCESSES, SECONDS, NUM_LOOKS = 8, 60, 5

WRITER = """
import json, random, sys, time
from collections import Counter
from datetime import timedelta
from loopeng.errors import ConflictError
from loopeng.prompts import text_hash
from loopeng.schema import Attempt, Revision, Rule, RuleOperation, Usage, utc_now
from loopeng.store import LeaseOwner, LoopStore

path, number, seconds, run_id = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
chance, done, step = random.Random(number), Counter(), 0

def attempt(sample_id):
    store.save_attempt(Attempt(run_id=run_id, sample_id=sample_id, seed=number, messages=(), text="t", verdict="fail",
                               usage=Usage(generated_tokens=1), created_at=utc_now()))

def occurrence(sample_id, fingerprint):
    store.record_occurrence(prompt_name="describe", prompt_version_id=run.prompt_version_id, run_id=run_id,
                            sample_id=sample_id, fingerprint=fingerprint, evaluator="e", category="c", reason="r",
                            remedy=None, fault_side="model")

def circle():
    task, base = store.task(run.task_hash), store.head("describe")
    proposal = store.create_proposal(task=task, base=base, pattern_ids=(), expires_at=None)
    rules = (*base.rules[-3:], Rule(id=f"r{number}-{step}", text=f"Rule {number}, {step}."))
    hashed = text_hash(base.template, rules)
    store.save_revision(Revision(proposal_id=proposal.id, revision=1, operations=(RuleOperation(op="add", text="x"),),
                                 rules=rules, text_hash=hashed, author="w", created_at=utc_now()))
    if step <= NUM_LOOKS:
        store.reserve_look(prompt_name="describe", dataset="d", proposal_id=proposal.id, revision=1, alpha_total=0.05,
                           sample_keys=["shared", f"own-{number}-{step}"])
        done["looks"] += 1
    if store.move_proposal(proposal.id, to="pending", frm={"drafting"}):
        store.snooze(proposal.id, until=timedelta(days=1), by=str(number))
        done["snoozes"] += 1
        store.decide(action="approve", proposal_id=proposal.id, revision=1, seen_hash=hashed, by=str(number))
        done["decisions"] += 1
        done["commits"] += store.commit_proposal(proposal.id) is not None

def merge():
    there = {pattern.fingerprint: pattern for pattern in store.patterns("describe")}
    if there.keys() >= {"gone", "kept"} and there["gone"].merged_into is None:
        store.merge_patterns(there["gone"].id, there["kept"].id, by=str(number))
        done["merges"] += 1

with LoopStore.open(path) as store:
    run, until = store.run(run_id), time.monotonic() + seconds
    while time.monotonic() < until:
        step += 1
        attempt(f"own-{number}-{step}"), attempt(f"shared-{step}")
        occurrence(f"own-{number}-{step}", f"f{step % 3}"), occurrence(f"shared-{step}", "shared")
        occurrence(f"own-{number}-{step}", "gone"), occurrence("first", "kept")
        for work in (merge, circle):
            try:
                work()
            except ConflictError:
                done["conflicts"] += 1
        owner = LeaseOwner.current()
        if store.acquire_lease("proposal:1", owner):
            done["leases"] += 1
            store.release_lease("proposal:1", owner)
        store.patterns("describe"), store.run_usage(run_id), store.proposals(states=["pending"])
done["steps"] = step
print(json.dumps(done))
"""


@pytest.mark.slow
def test_eight_processes_write_for_a_minute(store: LoopStore, make: Any) -> None:
    """langgraph#8136: 'database is locked' under a few writers; counts by increment lose some."""
    run = make.run()
    command = [sys.executable, "-W", "error", "-c", WRITER.replace("NUM_LOOKS", str(NUM_LOOKS)), str(store.path)]
    writers = [
        subprocess.Popen(
            [*command, str(number), str(SECONDS), run.id], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for number in range(NUM_PROCESSES)
    ]
    outputs = [writer.communicate() for writer in writers]
    assert [errors for _, errors in outputs if errors] == []
    done = [Counter(json.loads(output)) for output, _ in outputs]
    assert min(each["steps"] for each in done) >= 10  # nobody starves
    _everything_is_counted_once(store, run.id, done)
    assert _integrity(store.path) == "ok"


def _everything_is_counted_once(store: LoopStore, run_id: str, done: list[Counter[str]]) -> None:
    steps = [each["steps"] for each in done]
    num_own, num_shared = sum(steps), max(steps)
    num_attempts, usage = store.run_usage(run_id)
    assert (num_attempts, usage.generated_tokens) == (num_own + num_shared, num_own + num_shared)
    wanted = {f"f{rest}": sum(len(range(1, each + 1)[(rest - 1) % 3 :: 3]) for each in steps) for rest in range(3)}
    assert {pattern.fingerprint: pattern.num_samples for pattern in _all_patterns(store, run_id)} == wanted | {
        "shared": num_shared,
        "gone": 0,
        "kept": num_own + 1,
    }
    total: Counter[str] = sum(done, Counter())
    assert total["commits"] > 0 and total["merges"] == 1
    actions = Counter(decision.action for decision in store.decisions())
    assert actions == {"approve": total["decisions"], "snooze": total["snoozes"], "merge": 1}
    looks = [look.number for look in store.looks("describe")]
    assert sorted(looks) == list(range(1, total["looks"] + 1))  # they share a sample: nobody's number is another's
    versions = store.prompt_versions("describe")
    assert [version.number for version in versions] == list(range(1, total["commits"] + 2))
    assert [version.parent_id for version in versions[1:]] == [version.id for version in versions[:-1]]
    assert len(store.proposals(states=["committed"])) == total["commits"]
    assert store.proposals(states=["drafting", "testing", "pending", "approved"]) == []


def _all_patterns(store: LoopStore, run_id: str) -> list[Any]:
    """With the counts of the version the run was made under: the head has moved since."""
    version_id = store.run(run_id).prompt_version_id
    return [
        pattern.model_copy(update={"num_samples": len(store.occurrences(pattern.id, prompt_version_id=version_id))})
        for pattern in store.patterns("describe")
    ]


def _integrity(path: Path) -> str:
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect(path)) as connection:
        return str(connection.execute("PRAGMA integrity_check").fetchone()[0])
