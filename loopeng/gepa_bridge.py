"""A bridge to the public optimiser ``gepa`` (arXiv 2507.19457): it searches; our guards, gate and queue decide.

    import gepa

    adapter = loop.as_gepa_adapter("task.yaml")
    found = gepa.optimize(
        adapter.seed_candidate,
        adapter.trainset,
        adapter.valset,
        adapter=adapter,
        reflection_lm=my_strong_model,                      # any (prompt) -> text
        reflection_prompt_template=adapter.reflection_prompt,
        max_metric_calls=200,
        stop_callbacks=adapter.stop,                        # ends at the task's improve.limits, too
    )
    proposal = adapter.submit(found.best_candidate)         # guards, gate, hold-out, then the queue

A candidate of gepa is ``{"rules": text}``, one rule on each line; the template is out of its reach.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from loopeng.attempt.harness import Harness, ignore_event
from loopeng.errors import BudgetStop, EngineError, UsageError
from loopeng.evaluators.base import redact
from loopeng.improve.choosing import order_key
from loopeng.improve.guards.inspecting import Candidate, inspect_rules
from loopeng.improve.replaying import candidate_version
from loopeng.improve.rules import apply_operations, operations_between
from loopeng.improve.spending import Spending
from loopeng.improve.submitting import submit_rules
from loopeng.prompts import load_prompt, text_hash
from loopeng.schema import Attempt, GuardFinding, Proposal, Rule, Run, Sample, Usage

if TYPE_CHECKING:
    from gepa.core.adapter import EvaluationBatch

__all__ = ["COMPONENT", "GepaAdapter", "Trajectory", "parse_rules"]

COMPONENT = "rules"
_BULLET = re.compile(r"(?:[-*•]|\d{1,2}[.)])\s+")
_PASSED = "This answer passes every check."


@dataclass(frozen=True)
class Trajectory:
    """One evaluation: the sample, its attempt (None where the candidate was not run), and what a model may be told."""

    sample: Sample
    attempt: Attempt | None
    feedback: str


class GepaAdapter:
    """What ``gepa.optimize`` takes as ``adapter``: it runs candidates on reflect samples and proposes the best one.

    ``trainset`` (failures to learn from) and ``valset`` (what a candidate is chosen by) are the two halves of the
    task's reflect samples. The gate's samples are in neither, and ``evaluate`` refuses them: a search compares many
    candidates, so whatever it chooses by is fitted by chance as well, and a test on the same samples would prove
    nothing. The hold-out is for the person who decides.

    Evaluations are kept as runs of kind screen, one for each candidate: no candidate runs twice on a sample, and
    ``improve.limits`` counts over all of them. A limit raises BudgetStop out of ``evaluate``; with ``stop`` among
    gepa's ``stop_callbacks`` the search ends before the next round instead. A candidate that a guard refuses is not
    run: it scores 0, and the model hears which guard it was, never its reason, which may be about hidden samples.
    """

    propose_new_texts = None  # gepa's own proposer writes the candidates

    def __init__(self, harness: Harness) -> None:
        """Raises UsageError where the agent may have side effects, or where there are not two reflect samples."""
        store, task = harness.store, harness.task
        if not getattr(harness.agent, "replayable", False):
            raise UsageError(
                "a search runs the agent again and again; say 'replayable: true' in the task if it has no side effects"
            )
        reflect = [sample for sample in task.samples if sample.split == "reflect"]
        if len(reflect) < 2:
            raise UsageError(f"a search needs at least two reflect samples, one to learn from and one to choose by; "
                             f"there are {len(reflect)}")  # fmt: skip
        self._harness = harness
        self._base = store.adopt_template(task.prompt.name, task.template, by="task file")[0]
        shuffled = sorted(reflect, key=lambda sample: order_key(sample.id))
        self.trainset, self.valset = shuffled[0::2], shuffled[1::2]
        self._reflect_ids = {sample.id for sample in reflect}
        self._runs: dict[str, Run] = {}  # by the candidate's text hash
        self._spending = Spending(store, self._runs.values, task.improve.limits)

    @property
    def seed_candidate(self) -> dict[str, str]:
        """The rules of the head, where the search begins."""
        return {COMPONENT: "\n".join(rule.text for rule in self._base.rules)}

    @property
    def reflection_prompt(self) -> str:
        """For gepa's ``reflection_prompt_template``: asks for general rules, one on each line."""
        return load_prompt("gepa_reflect").text

    def spent(self) -> tuple[int, Usage]:
        """Attempts and tokens of all evaluations so far."""
        num_attempts, total = 0, Usage()
        for run in self._runs.values():
            attempts, usage = self._harness.store.run_usage(run.id)
            num_attempts, total = num_attempts + attempts, total + usage
        return num_attempts, total

    def stop(self, gepa_state: object = None) -> bool:
        """For gepa's ``stop_callbacks``: whether one of ``improve.limits`` is reached."""
        try:
            self._spending.check()
        except BudgetStop:
            return True
        return False

    def evaluate(
        self, batch: Sequence[Sample], candidate: Mapping[str, str], capture_traces: bool = False
    ) -> EvaluationBatch[Trajectory, str]:
        """First attempts on ``batch`` under the candidate's rules; scores are ours, 0 where nothing could be judged.

        Raises UsageError for a sample that is not one of the task's reflect samples, BudgetStop at a limit, EngineError
        where not a single answer could be judged.
        """
        if foreign := [sample.id for sample in batch if sample.id not in self._reflect_ids]:
            raise UsageError(f"a search may look at reflect samples alone; {foreign[0]!r} is none of this task's")
        refusal, rules = self._refusal(candidate)
        attempts = {} if refusal else self._attempts(batch, rules)
        watching = self._harness.task.watching
        trajectories = [_trajectory(sample, attempts.get(sample.id), refusal, watching) for sample in batch]
        make = _batch_class()
        return make(
            outputs=[each.attempt.text if each.attempt else "" for each in trajectories],
            scores=[(each.attempt.score or 0.0) if each.attempt else 0.0 for each in trajectories],
            trajectories=trajectories if capture_traces else None,
        )

    def make_reflective_dataset(
        self,
        candidate: Mapping[str, str],
        eval_batch: EvaluationBatch[Trajectory, str],
        components_to_update: Sequence[str],
    ) -> dict[str, list[dict[str, Any]]]:
        """What the reflecting model may see: inputs, outputs, the evaluators' feedback; never a target or reason."""
        records = [
            {
                "Inputs": {name: str(value) for name, value in each.sample.inputs.items()},
                "Generated Outputs": each.attempt.text if each.attempt else "",
                "Feedback": each.feedback,
            }
            for each in eval_batch.trajectories or ()
        ]
        return {name: records for name in components_to_update if name == COMPONENT}

    def submit(
        self, candidate: Mapping[str, str], *, by: str = "gepa", pattern_ids: Sequence[str] | None = None
    ) -> Proposal:
        """Propose a candidate: guards, gate, hold-out, queue. The answer says how far it came, and why no further.

        It is about ``pattern_ids``, by default the prompt's most frequent failures (up to 3). A candidate that a guard
        refuses is kept, archived with the guard's reason. Raises UsageError for rules that cannot be read or change
        nothing and where there is no failure to be about, ConflictError where the head has moved since the search began
        or an open proposal is about a pattern.
        """
        texts = parse_rules(candidate)
        rationale = (
            f"found by a search over {len(self._runs)} candidates with {self.spent()[0]} attempts on "
            f"{len(self._reflect_ids)} reflect samples"
        )
        return submit_rules(self._harness, self._base, texts, by=by, rationale=rationale, pattern_ids=pattern_ids)

    def _refusal(self, candidate: Mapping[str, str]) -> tuple[str | None, tuple[Rule, ...]]:
        """What to say of a candidate that is not run, and its rules."""
        try:
            texts = parse_rules(candidate)
        except UsageError as error:
            return str(error), ()
        rules = apply_operations(self._base.rules, operations_between(self._base.rules, texts))
        if text_hash(self._base.template, rules) == self._base.text_hash:
            return None, rules
        guards = ", ".join(finding.guard for finding in self._inspect(rules))
        return (f"These rules are refused by a guard: {guards}." if guards else None), rules

    def _inspect(self, rules: tuple[Rule, ...]) -> tuple[GuardFinding, ...]:
        """Without what people refused before: that is looked up when a candidate is proposed."""
        return inspect_rules(Candidate(task=self._harness.task, base=self._base, rules=rules, rejected={}))

    def _attempts(self, batch: Sequence[Sample], rules: tuple[Rule, ...]) -> dict[str, Attempt]:
        """By sample id. What this candidate was run on before is taken from its run."""
        from loopeng.runner import execute_run  # brings langgraph

        harness, version = replace(self._harness, on_event=ignore_event), candidate_version(self._base, rules)
        run = self._runs[version.text_hash] = self._runs.get(version.text_hash) or self._new_run()
        samples = list({sample.id: sample for sample in batch}.values())
        self._spending.check()
        left = self._spending.left_for(run)  # before the run is opened again
        run = execute_run(
            harness, harness.store.reopen_run(run.id), version, samples, max_attempts=1, repeats=1, limits=left
        )
        if run.status == "budget":
            raise BudgetStop(f"improve.{run.stop_reason}")
        wanted = {sample.id for sample in samples}
        found = {each.sample_id: each for each in harness.store.attempts(run.id) if each.sample_id in wanted}
        if found and all(each.verdict == "error" for each in found.values()):
            first = next(iter(found.values()))
            broken = first.error or next((result.error for result in first.results if result.error), "unknown")
            raise EngineError(f"not one of {len(found)} answers could be judged: {broken}")
        return found

    def _new_run(self) -> Run:
        """Seeds of the search's own: it must not be fitted to the draws that the suite happened to make."""
        harness, task = self._harness, self._harness.task
        return harness.store.create_run(
            kind="screen",
            task=task,
            version=self._base,
            seed=task.run.seed + 1,
            arm="candidate",
            engine=harness.description(),
        )


def parse_rules(candidate: object) -> list[str]:
    """The rules of a candidate ``{"rules": text}``: one on each line, bullets and numbers before them taken off.

    Raises UsageError for another shape, and for lines that are no rule: headings, fences, rulers.

    >>> parse_rules({"rules": "- Write one sentence.\\n\\n2. Use at most 20 words."})
    ['Write one sentence.', 'Use at most 20 words.']
    """
    if not isinstance(candidate, Mapping) or candidate.keys() != {COMPONENT}:
        raise UsageError(f"a candidate is {{'{COMPONENT}': text}}, not {candidate!r}")
    text = candidate[COMPONENT]
    if not isinstance(text, str):
        raise UsageError(f"the rules of a candidate are one text, a rule on each line, not {text!r}")
    rules = []
    for number, line in enumerate(text.splitlines(), start=1):
        rule = _BULLET.sub("", line.strip(), count=1) if _BULLET.match(line.strip()) else line.strip()
        if not rule or rule.casefold() == "rules:":
            continue
        if rule.startswith(("#", "```", "|")) or not any(character.isalnum() for character in rule):
            raise UsageError(
                f"line {number} of the candidate is no rule: {line.strip()!r}; write one rule on each line"
            )
        rules.append(rule)
    return rules


def _trajectory(sample: Sample, attempt: Attempt | None, refusal: str | None, watching: frozenset[str]) -> Trajectory:
    if attempt is None:
        return Trajectory(sample, None, refusal or "This sample was not run.")
    if attempt.verdict == "error":
        return Trajectory(sample, attempt, "This answer could not be judged.")
    heard = (result for result in attempt.failed_results if result.evaluator not in watching)
    said = dict.fromkeys(result.feedback.strip() for result in heard)
    feedback = "\n".join(redact(text, sample, attempt) for text in said if text)
    return Trajectory(sample, attempt, feedback or (_PASSED if attempt.verdict == "pass" else "This answer fails."))


def _batch_class() -> type[EvaluationBatch[Trajectory, str]]:
    try:
        from gepa.core.adapter import EvaluationBatch
    except ImportError:
        raise UsageError("gepa is not installed: pip install 'loopeng[gepa]'") from None
    return EvaluationBatch
