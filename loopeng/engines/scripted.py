"""A deterministic engine that answers from a script: for tests, docs and dry runs. It loads no model.

A script file is YAML or JSON::

    replies:
      - {when: "Describe.*mug", say: "A mug."}        # regex over the whole conversation, first match wins
      - {when: "at most 20 words", say: [short, brief]}    # a list: the request's seed picks
      - {when: "teapot", error: "out of steam"}       # raises EngineError
    default: "I do not know."
    delay_s: 0.01                                     # before every answer
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

from pydantic import Field, field_validator, model_validator

from loopeng.errors import EngineError, TaskError
from loopeng.ports import EngineInfo, TextReply, TextRequest
from loopeng.references import import_reference
from loopeng.schema import Noun, Usage, content_hash
from loopeng.schema.task import EngineSpec
from loopeng.validation import validated
from loopeng.yaml_lines import parse_yaml, read_text

__all__ = ["Script", "ScriptedEngine", "ScriptedReply"]


class ScriptedReply(Noun):
    """One rule: where ``when`` is found in the conversation, answer with ``say`` or break with ``error``."""

    when: str
    say: str | tuple[str, ...] | None = None
    error: str | None = Field(None, description="Raise EngineError with this text.")
    delay_s: float = Field(0.0, ge=0)

    @field_validator("when")
    @classmethod
    def _regex(cls, value: str) -> str:
        try:
            re.compile(value)
        except re.error as error:
            raise ValueError(f"{value!r} is not a regular expression: {error}") from error
        return value

    @model_validator(mode="after")
    def _one_answer(self) -> ScriptedReply:
        if (self.say is None) == (self.error is None) or self.say == ():
            raise ValueError("give exactly one of 'say' and 'error'")
        return self


class Script(Noun):
    """All rules, in order; ``default`` answers where none matches."""

    replies: tuple[ScriptedReply, ...] = ()
    default: str | tuple[str, ...] | None = None
    delay_s: float = Field(0.0, ge=0)

    def __call__(self, request: TextRequest) -> str:
        """The answer to a request. Raises EngineError where the script says so or has no answer."""
        conversation = "\n\n".join(f"{message.role}: {message.content}" for message in request.messages)
        for reply in self.replies:
            if re.search(reply.when, conversation, re.DOTALL):
                time.sleep(self.delay_s + reply.delay_s)
                return _say(reply.say, reply.error or "", request.seed)
        time.sleep(self.delay_s)
        return _say(self.default, f"the script has no reply to {conversation[-200:]!r} and no default", request.seed)


def _say(say: str | tuple[str, ...] | None, error: str, seed: int) -> str:
    if say is None:
        raise EngineError(error)
    return say if isinstance(say, str) else say[seed % len(say)]


class ScriptedEngine:
    """Answers from a Script, or from any function of the request. Counts words as tokens; passes there are none."""

    def __init__(self, replies: Script | Callable[[TextRequest], str], *, reference: str | None = None) -> None:
        self.replies, self.reference = replies, reference
        content = replies.model_dump(mode="json") if isinstance(replies, Script) else _name(replies)
        self._fingerprint = f"scripted:{content_hash(content)[:16]}"

    @classmethod
    def from_spec(cls, spec: EngineSpec, base_dir: Path | None = None) -> ScriptedEngine:
        """The engine of ``{kind: scripted, script: ...}``. Raises TaskError for a missing or wrong script."""
        if not spec.script:
            raise TaskError("an engine of kind 'scripted' needs 'script': a .yaml or .json file, or module:function")
        if not spec.script.endswith((".yaml", ".yml", ".json")):
            return cls(import_reference(spec.script, base_dir), reference=spec.model_dump_json())
        path = (base_dir or Path()) / spec.script
        absolute = spec.model_copy(update={"script": str(path.resolve())})
        return cls(_read_script(path), reference=absolute.model_dump_json())

    def generate(self, request: TextRequest) -> TextReply:
        """Raises EngineError where the script says so."""
        started = time.perf_counter()
        text = self.replies(request)
        usage = Usage(
            prompt_tokens=sum(len(message.content.split()) for message in request.messages),
            generated_tokens=len(text.split()),
        )
        return TextReply(
            text=text,
            finish_reason="stop",
            usage=usage,
            latency_s=time.perf_counter() - started,
            fingerprint=self._fingerprint,
        )

    def describe(self) -> EngineInfo:
        return EngineInfo(
            kind="scripted",
            deterministic=isinstance(self.replies, Script),  # what a function does nobody knows
            fingerprint=self._fingerprint,
            reference=self.reference,
        )


def _name(function: Callable[[TextRequest], str]) -> str:
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{named.__qualname__}"


def _read_script(path: Path) -> Script:
    document = parse_yaml(read_text(path), file=str(path))
    replies = {"replies": document.data} if isinstance(document.data, list) else document.data
    script = validated(Script, replies)
    if isinstance(script, Script):
        return script
    first = script[0]
    raise TaskError(first.message, file=str(path), line=document.line(first.loc), suggestion=first.suggestion)
