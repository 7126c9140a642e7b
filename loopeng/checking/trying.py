"""An answer of ours before the evaluators, as if a model had given it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from loopeng.attempt.judging import verdict_of
from loopeng.evaluators import run_evaluators
from loopeng.evaluators.parts import walk_parts
from loopeng.improve.rules import CHARS_PER_TOKEN
from loopeng.ports import Evaluator
from loopeng.prompts import PromptTemplate
from loopeng.schema import Attempt, EvalResult, Message, Sample, Task, Usage, utc_now
from loopeng.schema.attempts import Verdict

__all__ = ["Bench", "asks_a_model", "estimated_tokens"]

_MAX_SAMPLES, _MAX_SLOW_SAMPLES = 20, 3


@dataclass(frozen=True)
class Bench:
    """A task's evaluators, and the few samples that are enough to see what they let through.

    An evaluator says of itself, or its parts do, ``uses_engine`` (it asks a model), ``needs_a_run`` (it looks at what
    an attempt took or did besides) and ``is_slow`` (it runs programs: fewer samples are tried).
    """

    task: Task
    evaluators: tuple[Evaluator, ...]

    @property
    def without_model(self) -> tuple[Evaluator, ...]:
        """Those that can be asked here."""
        return tuple(each for each in self.evaluators if not asks_a_model(each))

    @property
    def tried(self) -> tuple[Evaluator, ...]:
        """Those of them whose word on an answer without a run behind it means something."""
        return tuple(each for each in self.without_model if not _says(each, "needs_a_run"))

    @property
    def left_out(self) -> dict[str, str]:
        """By id of the others, why."""
        reasons = {each.id: "it asks a model" for each in self.evaluators if each not in self.without_model}
        more = "it looks at more than the answer's text"
        return reasons | {each.id: more for each in self.without_model if each not in self.tried}

    @property
    def samples(self) -> tuple[Sample, ...]:
        """The first ones."""
        slow = any(_says(each, "is_slow") for each in self.tried)
        return self.task.samples[: _MAX_SLOW_SAMPLES if slow else _MAX_SAMPLES]

    def judge(
        self, sample: Sample, text: str, *, only: Evaluator | None = None, trajectory: Any = None
    ) -> tuple[EvalResult, ...]:
        """What those that are tried (or ``only`` one evaluator) say of ``text``. Never raises."""
        prompt = PromptTemplate(self.task.template).render(sample.inputs)
        usage = Usage(prompt_tokens=estimated_tokens(prompt), generated_tokens=estimated_tokens(text))
        attempt = Attempt(
            run_id="check",
            sample_id=sample.id,
            seed=0,
            messages=(Message(role="user", content=prompt),),
            text=text,
            trajectory=trajectory,
            usage=usage,
            verdict="error",
            created_at=utc_now(),
        )
        return run_evaluators(self.tried if only is None else (only,), sample, attempt)

    def verdict(self, results: Sequence[EvalResult]) -> tuple[Verdict, float | None]:
        """The task's verdict on results, and their mean score; of those evaluators that were tried."""
        nothing_decides = all(each.evaluator in self.task.watching for each in results)
        return ("error", None) if nothing_decides else verdict_of(results, self.task)


def estimated_tokens(text: str) -> int:
    """Tokens of a text without a tokenizer.

    >>> estimated_tokens("Describe this."), estimated_tokens("")
    (4, 0)
    """
    return -(-len(text) // CHARS_PER_TOKEN)


def asks_a_model(evaluator: Evaluator) -> bool:
    """Whether an evaluator asks a model, or a part of it does."""
    return _says(evaluator, "uses_engine")


def _says(evaluator: Evaluator, name: str) -> bool:
    """Whether an evaluator has an attribute that is true, or a part of it has."""
    return any(getattr(each, name, False) for _, each in walk_parts([evaluator]))
