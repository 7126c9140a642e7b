"""One task.yaml as a frozen value: its sections put together, and the samples they name."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from loopeng.schema.base import Noun, Split, content_hash
from loopeng.schema.engine_section import EngineSpec
from loopeng.schema.improve_sections import (
    ApprovalSpec,
    AutoCommitSpec,
    GateSpec,
    ImproveSpec,
    WebhookSpec,
    parse_duration,
)
from loopeng.schema.improvement import Rule
from loopeng.schema.sections import (
    COMMAND_TIME_LIMIT_S,
    AgentSpec,
    BudgetSpec,
    DatasetSpec,
    EvaluatorSpec,
    LoopSpec,
    PassSpec,
    PromptSpec,
    RetryName,
    RunSpec,
    SelfTest,
)

__all__ = [
    "COMMAND_TIME_LIMIT_S",
    "AgentSpec",
    "ApprovalSpec",
    "AutoCommitSpec",
    "BudgetSpec",
    "DatasetSpec",
    "EngineSpec",
    "EvaluatorSpec",
    "GateSpec",
    "ImproveSpec",
    "LoopSpec",
    "PassSpec",
    "PromptSpec",
    "RetryName",
    "RunSpec",
    "Sample",
    "SelfTest",
    "Task",
    "TaskFile",
    "WebhookSpec",
    "parse_duration",
]


class Sample(Noun):
    """One input. ``inputs`` fill the template; ``target`` is for evaluators only."""

    id: str
    inputs: dict[str, Any]
    target: Any = None
    split: Split
    group: str | None = None


class TaskFile(Noun):
    """The keys of a task.yaml; its JSON Schema is what ``loopeng schema`` prints."""

    version: Literal[1]
    name: str = Field(min_length=1)
    prompt: PromptSpec
    dataset: DatasetSpec
    agent: AgentSpec = AgentSpec()
    engine: EngineSpec = EngineSpec()
    evaluators: tuple[EvaluatorSpec, ...] = Field(min_length=1)
    pass_: PassSpec = Field(PassSpec(), alias="pass")
    run: RunSpec = RunSpec()
    loop: LoopSpec = LoopSpec()
    limits: BudgetSpec = BudgetSpec()
    improve: ImproveSpec = ImproveSpec()
    gate: GateSpec = GateSpec()
    approval: ApprovalSpec = ApprovalSpec()

    @property
    def retry(self) -> RetryName:
        """The retry policy: the one named, else what solved most where such evaluators decide.

        What failed tests say helped little, other evaluators say what to do: see ``evals/results``,
        ``retry_policies.json`` and ``retry_policies-product-descriptions.json``.
        """
        by_tests_alone = all(spec.type == "unit_tests" for spec in self.evaluators if spec.weight)
        return self.loop.retry or ("resample" if by_tests_alone else "critique")


class Task(TaskFile):
    """A task file, checked, with its template's text and its samples loaded."""

    template: str
    file_rules: tuple[Rule, ...] | None = Field(None, description="Those of a prompt file; None where it has none.")
    samples: tuple[Sample, ...] = Field(min_length=1)
    path: Path | None = Field(None, description="The task file; None for a task made in Python.")

    @property
    def folder(self) -> Path | None:
        """Where relative paths begin; None for a task made in Python."""
        return self.path.parent if self.path is not None else None

    @property
    def watching(self) -> frozenset[str]:
        """Evaluators of weight 0: they are reported and decide nothing."""
        return frozenset(spec.id for spec in self.evaluators if not spec.weight)

    def temperature(self, attempt_index: int) -> float:
        """The temperature of attempt 0, 1, ... before the retry policy has its say."""
        if self.loop.temperatures is None:
            return self.engine.temperature or 0.0
        return self.loop.temperatures[min(attempt_index, len(self.loop.temperatures) - 1)]

    @property
    def version_hash(self) -> str:
        """Hash of everything that decides what a run does: keys, template text and samples.

        Rules are no part of it: they belong to the prompt's version, whether or not they came from a file. Nor are
        evaluators' self-tests, which only ``loopeng check`` reads.
        """
        content = self.model_dump(mode="json", by_alias=True, exclude={"path", "file_rules"})
        evaluators = [_without_self_tests(each) for each in content["evaluators"]]
        loop = content["loop"] | {"retry": self.retry}
        return content_hash(content | {"evaluators": evaluators, "loop": loop})


def _without_self_tests(evaluator: dict[str, Any]) -> dict[str, Any]:
    """Of the evaluator, and of its parts where it is a composite."""
    kept = {key: value for key, value in evaluator.items() if key != "self_tests"}
    if kept.get("type") == "composite" and isinstance(kept.get("evaluators"), list):
        kept["evaluators"] = [
            _without_self_tests(each) if isinstance(each, dict) else each for each in kept["evaluators"]
        ]
    return kept
