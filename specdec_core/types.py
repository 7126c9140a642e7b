"""What goes into a generation and what comes out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from torch import Tensor

from specdec_core.logprobs import TokenLogprobs
from specdec_core.metrics import DecodeStats, NumericsFingerprint
from specdec_core.sampling import SamplingParams

__all__ = [
    "Draft",
    "FinishReason",
    "GenerationChunk",
    "GenerationOutput",
    "GenerationRequest",
    "Round",
    "StructuredOutput",
]

FinishReason = Literal["stop", "length"]
"""``stop``: an end-of-sequence token, a stop string, or a grammar that lets nothing follow; ``length``: max_tokens or
the context is used up. A structured text that ends by ``length`` or in a stop string may be incomplete."""


class StructuredOutput(BaseModel):
    """The form that a text must have. Give exactly one of ``json_schema``, ``json_object`` and ``regex``.

    JSON is written on one line, as ``json.dumps`` writes it: ``", "`` between items, ``": "`` after keys, properties in
    the order of the schema. Needs the extra ``structured``.

    >>> StructuredOutput(json_schema='{"type": "boolean"}').json_schema
    {'type': 'boolean'}
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    json_schema: dict[str, Any] | None = Field(None, description="A JSON Schema, as an object or as its JSON text.")
    json_object: bool = Field(False, description="Any JSON object.")
    regex: str | None = Field(None, description="A regular expression (Rust syntax) that the whole text matches.")

    @field_validator("json_schema", mode="before")
    @classmethod
    def _parsed(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value)
        except json.JSONDecodeError as error:
            raise ValueError(f"not JSON: {error}") from None

    @model_validator(mode="after")
    def _one_form(self) -> StructuredOutput:
        given = [name for name in ("json_schema", "regex") if getattr(self, name) is not None]
        given += ["json_object"] if self.json_object else []
        if len(given) != 1:
            raise ValueError(f"give exactly one of json_schema, json_object and regex, not {given or 'none'}")
        return self


class GenerationRequest(BaseModel):
    """One generation. Give exactly one of ``messages``, ``prompt`` and ``prompt_token_ids``.

    The text never depends on ``reference_texts``: drafts may follow them, nothing else.

    >>> GenerationRequest(prompt="Once", sampling=SamplingParams(max_tokens=8)).sampling.max_tokens
    8
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    messages: tuple[Mapping[str, str], ...] | None = Field(None, description="Chat turns: role and content.")
    prompt: str | None = Field(
        None, description="Raw text, a beginning-of-sequence token before it where the model has one."
    )
    prompt_token_ids: tuple[int, ...] | None = Field(None, description="Ids, used as they stand.")
    sampling: SamplingParams = SamplingParams()
    reference_texts: tuple[str, ...] = Field((), description="Texts the answer may repeat, most likely first.")
    structured: StructuredOutput | None = Field(None, description="The form that the text must have.")

    @model_validator(mode="after")
    def _one_prompt(self) -> GenerationRequest:
        given = [name for name in ("messages", "prompt", "prompt_token_ids") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"give exactly one of messages, prompt and prompt_token_ids, not {given or 'none'}")
        return self


@dataclass(frozen=True, slots=True)
class Draft:
    """Tokens that a drafter proposes to follow the last emitted one.

    ``probs`` [num_draft, vocab] holds the law that each token was drawn from; None where tokens were chosen rather than
    drawn (a one-hot law). Rejection verification needs it, match verification does not look at it.

    ``match_length`` is how many tokens of the text stood before the place that was copied; None where nothing was. How
    much of a draft will be accepted is learned by it (``specdec_core.acceptance``): what sources expected of themselves
    was off by up to two times either way.
    """

    token_ids: tuple[int, ...] = ()
    source: str = "none"
    probs: Tensor | None = field(default=None, compare=False, repr=False)
    match_length: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Round:
    """One decode pass, told for traces: drafted, accepted, and the target's own last token.

    ``last`` is ``recovered`` (the target disagreed with the draft), ``bonus`` (the whole draft was accepted) or
    ``None`` where the text ended inside the accepted draft.
    """

    draft: Draft
    token_ids: tuple[int, ...]
    num_accepted: int
    last: Literal["recovered", "bonus"] | None


@dataclass(frozen=True, slots=True)
class GenerationOutput:
    """A finished text. ``token_ids`` holds every emitted token, the one that ended the text included;
    ``text`` ends before the end-of-sequence token or the stop string. ``logprobs`` goes with ``token_ids``; None where
    ``SamplingParams.logprobs`` is."""

    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    stop_string: str | None
    prompt_token_ids: tuple[int, ...]
    stats: DecodeStats
    fingerprint: NumericsFingerprint
    logprobs: tuple[TokenLogprobs, ...] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {
            "text": self.text,
            "token_ids": list(self.token_ids),
            "finish_reason": self.finish_reason,
            "stop_string": self.stop_string,
            "num_prompt_tokens": len(self.prompt_token_ids),
            "stats": self.stats.to_dict(),
            "fingerprint": self.fingerprint.to_dict(),
            "logprobs": None if self.logprobs is None else [each.to_dict() for each in self.logprobs],
        }


@dataclass(frozen=True, slots=True)
class GenerationChunk:
    """A piece of a stream: whole characters only, never text that a stop string could still take back.

    The last chunk carries ``output``; the texts of all chunks make ``output.text``, and so with ``token_ids`` and
    ``logprobs``.
    """

    text: str
    token_ids: tuple[int, ...] = ()
    output: GenerationOutput | None = None
    logprobs: tuple[TokenLogprobs, ...] = ()  # of token_ids, where the request wants them
