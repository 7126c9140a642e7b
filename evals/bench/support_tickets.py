"""One turn of the loop on the support tickets: what fails, what is proposed, and what the paired comparison says of it.

    python -m evals.bench.support_tickets --agent ~/models/qwen2.5-coder-0.5b-instruct \
        --reflector llm --reflector-model ~/models/qwen2.5-coder-1.5b-instruct

Runs the suite in a database of its own (thrown away, unless ``--db`` names one), then proposes. Whatever comes is
reported: no proposal, refused rules and "no evidence" are results like any other. Progress goes to stderr.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from loopeng import Loop, load_task
from loopeng.attempt.events import GateProgress, ProgressEvent, ProposalMoved, SampleFinished
from loopeng.errors import LoopError
from loopeng.schema import FailurePattern, GateReport, Proposal, Task
from loopeng.store import LoopStore

ROOT = Path(__file__).parent.parent.parent
TASK = ROOT / "evals" / "suites" / "support-tickets"
_PACKAGES = ("loopeng", "torch", "transformers", "langgraph")


def suite_task(
    agent: str | None = None, reflector: str = "hints", reflector_model: str | None = None, tickets: int | None = None
) -> Task:
    """The suite with other models; ``tickets`` takes that many of each split. A model is a local path or a hub id."""
    task = load_task(TASK)
    engine = task.engine if agent is None else task.engine.model_copy(update={"model": _place(agent)})
    improve = task.improve.model_copy(update={"reflector": reflector})
    if reflector != "hints":  # a list of changes is longer than a triage
        model = engine.model if reflector_model is None else _place(reflector_model)
        own = engine.model_copy(update={"model": model, "max_tokens": 512})
        improve = improve.model_copy(update={"engine": own, "candidates": 3})
    samples = task.samples
    if tickets is not None:
        by_split = {
            split: [each for each in samples if each.split == split] for split in ("reflect", "gate", "holdout")
        }
        kept = {each.id for of_split in by_split.values() for each in of_split[:tickets]}
        samples = tuple(each for each in samples if each.id in kept)
    return task.model_copy(update={"engine": engine, "improve": improve, "samples": samples})


def measure(loop: Loop, task: Task) -> dict[str, Any]:
    """One suite run, then the proposals it leads to. Raises LoopError only where the suite itself cannot run."""
    progress = Progress()
    started = time.perf_counter()
    run = loop.run(task, improve=False, on_event=progress)
    ran_s = time.perf_counter() - started
    error = None
    try:
        loop.propose(task, on_event=progress)
    except LoopError as stop:
        error = f"{type(stop).__name__}: {stop}"
    store = loop.store
    return {
        "suite": {
            "status": run.run.status,
            "first_attempts": {
                split: {"passed": each.first_passed, "judged": each.samples - each.first_errors}
                for split, each in run.summary.splits.items()
            },
            "after_retries": {
                split: {"passed": each.final_passed, "judged": each.samples - each.errors}
                for split, each in run.summary.splits.items()
            },
            "acceptance_length": _rounded(run.summary.acceptance_length),
            "tokens_per_second": _rounded(run.summary.tokens_per_second),
            "time_s": _rounded(ran_s),
        },
        "patterns": [_pattern(each) for each in store.patterns(task.prompt.name)],
        "proposals": [_proposal(store, each) for each in store.proposals(prompt_name=task.prompt.name)],
        "error": error,
        "improve_time_s": _rounded(time.perf_counter() - started - ran_s),
        "conditions": _conditions(task, run.run.engine),
    }


class Progress:
    """A line on stderr now and then."""

    def __init__(self) -> None:
        self._num_samples = 0

    def __call__(self, event: ProgressEvent) -> None:
        if isinstance(event, SampleFinished):
            self._num_samples += 1
            if self._num_samples % 10 == 0:
                print(f"{self._num_samples} tickets", file=sys.stderr)
        elif isinstance(event, GateProgress) and event.num_finished in (1, event.num_samples):
            print(f"{event.split} {event.arm}: {event.num_finished} of {event.num_samples}", file=sys.stderr)
        elif isinstance(event, ProposalMoved):
            print(f"{event.proposal_id}: {event.state} {event.reason or ''}".rstrip(), file=sys.stderr)


def _pattern(pattern: FailurePattern) -> dict[str, Any]:
    return {
        "evaluator": pattern.evaluator,
        "category": pattern.category,
        "num_samples": pattern.num_samples,
        "remedy": pattern.remedy,
    }


def _proposal(store: LoopStore, proposal: Proposal) -> dict[str, Any]:
    """A proposal with all its texts: what was suggested, what was refused and why, and what was tested."""
    return {
        "state": proposal.state,
        "reason": proposal.state_reason,
        "patterns": [store.pattern(each).category for each in proposal.pattern_ids],
        "suggestions": _suggestions(store, proposal),
        "revisions": [
            {
                "revision": each.revision,
                "author": each.author,
                "rules": [rule.text for rule in each.rules],
                "rationale": each.rationale,
                "refused": [finding.model_dump() for finding in each.findings],
                "gate": _report(store.gate_report(proposal.id, each.revision, "gate")),
                "holdout": _report(store.gate_report(proposal.id, each.revision, "holdout")),
            }
            for each in store.revisions(proposal.id)
        ],
    }


def _suggestions(store: LoopStore, proposal: Proposal) -> list[dict[str, Any]]:
    return [
        each.model_dump(mode="json", exclude={"proposal_id", "created_at", "text_hash"})
        for each in store.suggestions(proposal.id)
    ]


def _report(report: GateReport | None) -> dict[str, Any] | None:
    if report is None:
        return None
    return {
        "verdict": report.verdict,
        "note": report.note,
        "summary": report.summary,
        "pairs": report.pairs.model_dump(),
        "num_errors": report.num_errors,
        "by_evaluator": {name: pairs.model_dump() for name, pairs in report.by_evaluator.items()},
        "test": report.test.model_dump(mode="json") if report.test is not None else None,
        "deterministic": report.deterministic,
    }


def _conditions(task: Task, engine: dict[str, Any]) -> dict[str, Any]:
    own = task.improve.engine
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {name: version(name) for name in _PACKAGES},
        "agent_model": Path(task.engine.model).name,
        "reflector": task.improve.reflector,
        "reflector_model": Path(own.model).name if own is not None else None,
        "engine": {
            "kind": engine.get("kind"),
            "deterministic": engine.get("deterministic"),
            **engine.get("details", {}),
        },
        "num_tickets": len(task.samples),
    }


def _place(model: str) -> str:
    """An absolute path where there is such a file or folder: the task's own folder is not where one stands."""
    path = Path(model).expanduser()
    return str(path.resolve()) if path.exists() else model


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agent", help="the model that answers; the task's own if not given")
    parser.add_argument("--reflector", default="hints", help="hints, llm, or module:name")
    parser.add_argument("--reflector-model", help="the model that reads the failures; the agent's if not given")
    parser.add_argument("--tickets", type=int, help="at most this many of each split, for a quick look")
    parser.add_argument("--db", type=Path, help="keep the database here")
    parser.add_argument("--out", type=Path, default=ROOT / "evals" / "results" / "support_tickets.json")
    given = parser.parse_args(arguments)
    task = suite_task(given.agent, given.reflector, given.reflector_model, given.tickets)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        loop = stack.enter_context(Loop.open(given.db or folder / "loop.db"))
        try:
            result = measure(loop, task)
        except LoopError as error:
            print(f"the suite cannot run: {error}", file=sys.stderr)
            return error.exit_code
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print(json.dumps({"first_attempts": result["suite"]["first_attempts"], "proposals": len(result["proposals"])}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
