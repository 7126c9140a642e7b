"""The sections of a task.yaml that say what a run does. Field names are the keys; descriptions the JSON Schema's."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from loopeng.schema.base import Noun, Split

__all__ = [
    "COMMAND_TIME_LIMIT_S",
    "AgentSpec",
    "BudgetSpec",
    "DatasetSpec",
    "EvaluatorSpec",
    "LoopSpec",
    "PassSpec",
    "PromptSpec",
    "RetryName",
    "RunSpec",
    "SelfTest",
]

COMMAND_TIME_LIMIT_S = 600.0
_KEYS_OF_KINDS = {
    "time_limit_s": ("python", "command"),
    "max_output_bytes": ("command",),
    "env": ("command",),
    "input": ("python",),
    "output": ("python",),
}  # of an agent: the kinds that a key goes with
RetryName = Literal["resample", "feedback", "critique", "escalate"]


class PromptSpec(Noun):
    """The frozen template: the loop adds rules where ``{{ rules }}`` stands and never touches the rest."""

    name: str = Field(description="Key of the prompt in the database.", min_length=1)
    template: str | None = Field(None, description="The template itself; inputs as {{ name }}, rules as {{ rules }}.")
    file: str | None = Field(None, description="Or a file with the template, relative to the task file.")
    export: Literal["never", "on_commit"] = Field(
        "never",
        description="on_commit: write template and rules back to 'file' when a commit or rollback moves the head.",
    )

    @model_validator(mode="after")
    def _one_source(self) -> PromptSpec:
        if (self.template is None) == (self.file is None):
            raise ValueError("give exactly one of 'template' and 'file'")
        if self.export != "never" and self.file is None:
            raise ValueError("'export' writes to 'file', which is not given")
        return self


class DatasetSpec(Noun):
    """Where the samples come from: a .jsonl or .csv file, or inline."""

    path: str | None = Field(None, description="A .jsonl or .csv file, relative to the task file.")
    made_by: str | None = Field(
        None, exclude=True, description="The command that makes the file, said to whoever lacks it; changes no run."
    )
    samples: tuple[dict[str, Any], ...] | None = Field(None, description="Or the samples themselves.")
    id: str | None = Field(None, description="Field that names a sample; without it a hash of the input does.")
    target: str | None = Field(None, description="Field with the expected answer; never shown to the model.")
    split: str | None = Field(None, description="Field that holds gate, reflect or holdout.")
    group: str | None = Field(None, description="Samples with equal values of this field share a split.")
    splits: dict[Split, float] = Field(
        {"gate": 0.5, "reflect": 0.25, "holdout": 0.25}, description="Shares when no split field is given."
    )

    @model_validator(mode="after")
    def _one_source(self) -> DatasetSpec:
        if (self.path is None) == (self.samples is None):
            raise ValueError("give exactly one of 'path' and 'samples'")
        if self.made_by is not None and self.path is None:
            raise ValueError("'made_by' says how the file at 'path' is made; there is no path")
        if abs(sum(self.splits.values()) - 1) > 1e-9 or min(self.splits.values()) < 0:
            raise ValueError("the shares in 'splits' must add up to 1")
        return self


class AgentSpec(Noun):
    """What one attempt runs: ``llm`` (one engine call) or the user's own, with the key ``python`` or ``command``."""

    kind: Literal["llm", "python", "command"] = "llm"
    python: str | None = Field(
        None,
        description="module:name of a function that takes an AgentContext (sync or async), of a compiled graph of "
        "LangGraph, or of a function without parameters that makes one of these.",
    )
    command: tuple[str, ...] | None = Field(
        None,
        min_length=1,
        description="A program and its arguments, run in the task file's folder: the attempt as JSON on standard "
        'input, the answer on standard output, as text or as {"text": ..., "trajectory": ..., "usage": ...}.',
    )
    replayable: bool = Field(
        False, description="The agent has no side effects: reproduction, gate and hold-out may run it again."
    )
    time_limit_s: float | None = Field(
        None,
        gt=0,
        description=f"Of one attempt; an error beyond it. Unset: {COMMAND_TIME_LIMIT_S:g} for a command, else none.",
    )
    max_output_bytes: int = Field(1_000_000, ge=1, description="command: what it may print; an error beyond it.")
    env: Literal["all"] | tuple[str, ...] = Field(
        "all",
        description="command: names of the environment variables that it sees, besides PATH, HOME and those of the "
        "locale; all: every one.",
    )
    input: str | None = Field(
        None,
        description="Graph: the state's key that gets the prompt as text. Unset: 'messages' gets the conversation. "
        "Fields of the sample go to the keys of their names.",
    )
    output: str | None = Field(
        None, description="Graph: the state's key that holds the answer. Unset: the last message of the model does."
    )

    @model_validator(mode="before")
    @classmethod
    def _short_forms(cls, data: Any) -> Any:
        """``llm`` stands for ``{kind: llm}``; the key ``python`` or ``command`` says the kind."""
        if isinstance(data, str):
            return {"kind": data}
        if not isinstance(data, dict):
            return data
        kind = next((kind for kind in ("python", "command") if kind in data), "llm")
        # a validator before the fields ends JSON mode, where a list may fill a tuple
        return {"kind": kind} | {key: tuple(value) if isinstance(value, list) else value for key, value in data.items()}

    @model_validator(mode="after")
    def _what_the_kind_needs(self) -> AgentSpec:
        for kind in ("python", "command"):
            if (getattr(self, kind) is not None) != (self.kind == kind):
                missing = self.kind == kind
                raise ValueError(f"kind {self.kind} {'needs' if missing else 'does not go with'} the key '{kind}'")
        for key, kinds in _KEYS_OF_KINDS.items():
            if self.kind not in kinds and getattr(self, key) != type(self).model_fields[key].default:
                raise ValueError(
                    f"'{key}' goes with the key {' or '.join(map(repr, kinds))}, not with kind {self.kind}"
                )
        if self.command is not None and not self.command[0].strip():
            raise ValueError("the command's first part is its program, which is empty here")
        return self


class SelfTest(Noun):
    """One answer and what the evaluator must say of it; 'loopeng check' tries it on the named sample, or the first."""

    answer: str
    expect: str = Field(description="pass, fail, or the category of the failure.")
    sample: str | None = Field(None, description="Id of the sample it is an answer to; the first one if unset.")
    inputs: dict[str, Any] = Field({}, description="Fields to put in place of the sample's.")
    target: Any = Field(None, description="Expected answer to put in place of the sample's.")
    trajectory: Any = Field(None, description="What the agent did on the way, for evaluators that look at it.")


class EvaluatorSpec(Noun):
    """One evaluator: id, type, and the parameters its type declares."""

    model_config = ConfigDict(frozen=True, extra="allow", populate_by_name=True)
    id: str = Field(min_length=1, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")
    type: str
    weight: float = Field(
        1.0,
        ge=0,
        description="In the mean score. 0 only watches, in every mode of 'pass': its results are reported, but decide "
        "no verdict, not even by an error, reach no retry, no failure pattern and no gate. In a composite 0 counts for "
        "nothing in the mean.",
    )
    negate: bool = False
    remedy: str | None = Field(None, description="The rule to propose when this fails often; default: the type's own.")
    self_tests: tuple[SelfTest, ...] = Field((), description="Answers 'loopeng check' tries the evaluator on.")

    @property
    def params(self) -> dict[str, Any]:
        """The keys that belong to the evaluator's type."""
        return dict(self.__pydantic_extra__ or {})


class PassSpec(Noun):
    """When an attempt passes."""

    mode: Literal["all", "any", "weighted"] = "all"
    threshold: float = Field(0.8, ge=0, le=1, description="mode weighted: least weighted mean score.")


class RunSpec(Noun):
    """What a run must reach."""

    min_pass_rate: float = Field(1.0, ge=0, le=1)
    on: Literal["final", "first"] = "final"
    repeats: int = Field(1, ge=1)
    seed: int = 0


class LoopSpec(Noun):
    """Attempts and how a failure is tried again."""

    max_attempts: int = Field(3, ge=1)
    retry: RetryName | None = Field(
        None, description="Unset: resample where unit_tests alone decide, else critique; each solved most there."
    )
    temperatures: tuple[Annotated[float, Field(ge=0)], ...] | None = Field(
        None, min_length=1, description="By attempt; the last one stands for all further attempts."
    )


class BudgetSpec(Noun):
    """Limits that stop cleanly and resumably. None is no limit."""

    attempts: int | None = Field(None, ge=1)
    total_tokens: int | None = Field(None, ge=1)
    total_time_s: float | None = Field(None, gt=0)
