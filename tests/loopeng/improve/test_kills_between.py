"""kill -9 between two writes that belong together; and several processes at the same work."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from loopeng.approvals import approve
from loopeng.attempt.harness import Harness
from loopeng.errors import AlreadyDecidedError
from loopeng.gepa_bridge import GepaAdapter
from loopeng.improve import exporting, nodes, propose, recover, work
from loopeng.schema import Proposal, Task
from loopeng.schema.task import GateSpec, ImproveSpec, PromptSpec
from loopeng.store import LoopStore
from tests.loopeng.improve.conftest import TEMPLATE
from tests.loopeng.improve.test_kills import all_there_is, propose_and_approve
from tests.loopeng.improve.whole_circle import tell_of_writes

Child = Callable[[Callable[[], object]], int]
FOUND = "Write exactly one sentence of at most 20 words."


@pytest.fixture
def database(after_a_run: Path, tmp_path: Path) -> Path:
    shutil.copytree(after_a_run, tmp_path, dirs_exist_ok=True)
    return tmp_path / "loop.db"


@pytest.fixture
def dies(child: Child, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Do some work in a process that kills itself before the write session that comes ``after`` one of a method."""

    def run(work: Callable[[], object], *, after: str) -> None:
        seen: list[str] = []

        def tell(_station: str, name: str) -> None:
            if after in seen:
                os.kill(os.getpid(), signal.SIGKILL)
            seen.append(name)

        def doomed() -> None:
            tell_of_writes(tell, monkeypatch)
            work()

        assert os.WIFSIGNALED(os.waitpid(child(doomed), 0)[1])

    return run


@pytest.mark.parametrize("after", ["create_proposal", "acquire_lease", "reserve_look", "save_gate_report"])
def test_a_submitted_text_is_never_replaced_by_a_reflectors(
    database: Path, make_task: Callable[..., Task], dies: Callable[..., None], after: str
) -> None:
    task = make_task()

    def submit() -> None:
        with LoopStore.open(database) as own:
            GepaAdapter(Harness.build(own, task)).submit({"rules": FOUND})

    dies(submit, after=after)
    with LoopStore.open(database) as store:
        recover(store, harness=Harness.build(store, task))
        (proposal,) = store.proposals()
        assert proposal.state == "pending"
        assert [rule.text for rule in store.revision(proposal.id).rules] == [FOUND]
        assert len(store.revisions(proposal.id)) == 1


def test_a_reflection_that_was_cut_off_after_its_answer_is_ended(
    database: Path, make_task: Callable[..., Task], dies: Callable[..., None], tmp_path: Path
) -> None:
    reply = {"operations": [{"op": "add", "text": FOUND}], "rationale": "It helps."}
    (tmp_path / "replies.json").write_text(json.dumps({"default": json.dumps(reply)}))
    engine = {"kind": "scripted", "script": "replies.json"}
    task = make_task(improve=ImproveSpec.model_validate({"reflector": "llm", "engine": engine}))

    def start() -> None:
        with LoopStore.open(database) as own:
            propose(Harness.build(own, task))

    dies(start, after="save_suggestions")
    with LoopStore.open(database) as store:
        assert [run.status for run in store.runs(kind="reflect")] == ["running"]
        recover(store, harness=Harness.build(store, task))
        assert [run.status for run in store.runs(kind="reflect")] == ["finished"]
        assert [proposal.state for proposal in store.proposals()] == ["pending"]


def test_a_worker_writes_the_file_that_an_approval_was_cut_off_before(
    database: Path, make_task: Callable[..., Task], child: Child, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "describe.md"
    file.write_text(TEMPLATE)
    task = make_task(prompt=PromptSpec(name="describe", file="describe.md", export="on_commit"))

    def committing() -> None:
        monkeypatch.setattr(nodes, "export_on_commit", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        with LoopStore.open(database) as own:
            (proposal,) = propose(Harness.build(own, task))
            seen = own.revision(proposal.id).text_hash
            approve(own, proposal.id, by="ana", seen=seen, accept_untested=True)

    with LoopStore.open(database) as store:
        store.create_run(
            kind="suite", task=task, version=store.head("describe"), seed=0
        )  # where the file's name is from
    assert os.WIFSIGNALED(os.waitpid(child(committing), 0)[1])
    assert file.read_text() == TEMPLATE
    with LoopStore.open(database) as store:
        assert store.head("describe").number == 2
        work(store, harness_for=lambda _: Harness.build(store, task))
    assert "version: 2" in file.read_text()


def test_the_file_holds_the_head_that_moved_while_it_was_written(
    database: Path, make_task: Callable[..., Task], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two approvals at once: the one that is written last must not be the older one."""
    file, write = tmp_path / "describe.md", exporting._write
    task = make_task(prompt=PromptSpec(name="describe", file="describe.md", export="on_commit"))
    with LoopStore.open(database) as store:
        store.create_run(kind="suite", task=task, version=store.head("describe"), seed=0)

        def slowly(path: Path, text: str) -> None:
            store.adopt_template("describe", f"Please. {TEMPLATE}", by="another process")
            write(path, text)

        monkeypatch.setattr(exporting, "_write", slowly)
        export = exporting.export_on_commit(store, "describe")
        assert export is not None and (export.version.number, export.error) == (2, None)
    assert file.read_text().endswith(f"Please. {TEMPLATE}")


def test_workers_and_people_at_the_same_time(database: Path, make_task: Callable[..., Task], child: Child) -> None:
    """Two workers and two who propose and approve: whoever is second leaves it alone."""
    task = make_task(gate=GateSpec(samples=2))
    with LoopStore.open(database) as store:
        patterns = [pattern.id for pattern in store.patterns()]
        store.create_proposal(task=task, base=store.head("describe"), pattern_ids=patterns, expires_at=None)

    def worker() -> list[Proposal]:
        with LoopStore.open(database) as own:
            return [step.after for step in work(own, harness_for=lambda _: Harness.build(own, task))]

    def person() -> None:
        propose_and_approve(database, task)

    pids = [child(each) for each in (worker, person, worker, person)]
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    assert {codes[0], codes[2]} == {0} and {codes[1], codes[3]} <= {0, AlreadyDecidedError.exit_code}
    person()
    there = all_there_is(database)
    assert (there["proposal"], there["head"], len(there["decisions"])) == (("committed", 1), 2, 1)
    assert [attempts for *_, attempts in there["runs"]] == [2, 2, 2, 2]
    assert there["looks"] == [(1, 1, False)] and len(there["watches"]) == 2
