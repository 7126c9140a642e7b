"""The ``engine:`` section of a task.yaml, also of a judge and a reflector: one schema for every kind of engine."""

from __future__ import annotations

import re
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, field_validator

from loopeng.schema.base import Noun

__all__ = ["KEYS_OF_ONE_KIND", "KEYS_OF_TRANSPORT", "EngineKind", "EngineSpec"]

EngineKind = Literal["specdec", "openai", "scripted"]

KEYS_OF_ONE_KIND: dict[EngineKind, frozenset[str]] = {
    "specdec": frozenset({"drafter", "num_speculative_tokens", "context_length", "exactness", "device", "dtype"}),
    "openai": frozenset(
        {
            *("base_url", "api_key_env", "time_limit_s", "concurrency", "max_retries"),
            *("structured_output", "max_tokens_name", "extra_body"),
        }
    ),
    "scripted": frozenset({"script"}),
}
"""The keys that no other kind reads; all the others are for every kind."""

KEYS_OF_TRANSPORT = frozenset({"api_key_env", "time_limit_s", "concurrency", "max_retries"})
"""How answers come, which decides none of them: a run may go on after they changed."""

_AT_ONCE = 8  # requests: enough to keep a server busy, few enough for its limits
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
_OURS = ("messages", "model", "n", "stream")


class EngineSpec(Noun):
    """The text engine. ``kind`` decides which other keys apply."""

    model_config = ConfigDict(hide_input_in_errors=True)  # a key written where its variable belongs is shown nowhere

    kind: EngineKind = "specdec"
    model: str = Field(
        "smollm2-135m", description="Embedded name, local folder, GGUF file or hub id. Kind openai: the server's name."
    )
    drafter: str | tuple[str, ...] = Field(
        "auto", description="auto, none, a drafter's name, model:NAME (a smaller model), or a list of these."
    )
    num_speculative_tokens: int | None = Field(
        None, ge=0, description="Draft length; as long as a pass allows if unset."
    )
    context_length: int | None = Field(
        None, ge=2, description="Tokens of prompt and answer; the model's own up to 4096 if unset."
    )
    exactness: Literal["bitwise", "law"] | None = Field(None, description="Default: by the hardware table.")
    device: str = Field("auto", description="auto, cpu, cuda, or one of several as in cuda:1.")
    dtype: Literal["auto", "float32", "bfloat16", "float16", "float64"] = "auto"
    base_url: str | None = Field(
        None, description="Kind openai: where the server is, as in http://127.0.0.1:8000/v1; paths are added to it."
    )
    api_key_env: str | None = Field(
        None, description="Kind openai: the environment variable that holds the key. Without it no key is sent."
    )
    time_limit_s: float = Field(
        300.0, gt=0, le=86_400, description="Kind openai: most seconds for one try of a request."
    )
    concurrency: int | None = Field(
        None,
        ge=1,
        le=256,
        description=f"Kind openai: samples at work side by side. If unset {_AT_ONCE}, but one at a time where the task "
        "has an agent or an evaluator of your own: nobody promised that several threads may call it.",
    )
    max_retries: int = Field(
        3, ge=0, le=20, description="Kind openai: further tries after 429, 5xx, time-outs and broken connections."
    )
    structured_output: bool | None = Field(
        None, description="Kind openai: the server holds answers to a JSON Schema. If unset, where it says so itself."
    )
    max_tokens_name: Literal["max_tokens", "max_completion_tokens"] = Field(
        "max_tokens", description="Kind openai: what the server calls max_tokens."
    )
    extra_body: dict[str, Any] = Field(
        {}, description="Kind openai: put into every request as it is; null leaves a field of ours out."
    )
    max_tokens: int = Field(256, ge=1, le=1_000_000)
    temperature: float | None = Field(None, ge=0, description="One temperature for all attempts.")
    top_k: int | None = Field(None, ge=1)
    top_p: float = Field(1.0, gt=0, le=1)
    repetition_penalty: float = Field(1.0, gt=0)
    stop: tuple[str, ...] = ()
    script: str | None = Field(None, description="kind scripted: a .yaml/.json file of replies, or module:function.")

    @property
    def num_at_once(self) -> int:
        """Requests that the engine takes side by side."""
        return 1 if self.kind != "openai" else self.concurrency or _AT_ONCE

    @field_validator("api_key_env")
    @classmethod
    def _names_a_variable(cls, value: str | None) -> str | None:
        """The value is not repeated: whoever writes the key itself here must not find it in a log."""
        if value is not None and not _VARIABLE.fullmatch(value):
            raise ValueError(
                "must be the name of an environment variable, in capitals, as in OPENAI_API_KEY; "
                "the key itself belongs in no file"
            )
        return value

    @field_validator("base_url")
    @classmethod
    def _is_an_address(cls, value: str | None) -> str | None:
        problem = None if value is None else _problem_of_address(value)
        if problem is not None:
            raise ValueError(problem)
        return value

    @field_validator("extra_body")
    @classmethod
    def _leaves_ours_alone(cls, value: dict[str, Any]) -> dict[str, Any]:
        taken = sorted(value.keys() & set(_OURS))
        if taken:
            raise ValueError(f"{', '.join(taken)} cannot be set here: the engine does")
        return value


def _problem_of_address(url: str) -> str | None:
    """Why no request could go there, or None. A password in it is not repeated."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port  # reading the port checks it
    except ValueError:
        return "is no address: its host or port cannot be read"
    if parts.username is not None or parts.password is not None:
        return "must not hold a user or password: name the variable that holds the key in api_key_env"
    if parts.scheme not in ("http", "https") or not host or re.search(r"\s", url):
        return f"{url!r} must be an address that begins with http:// or https://, as in http://127.0.0.1:8000/v1"
    if parts.query or parts.fragment:
        return "must end with its path: paths are added to it"
    if parts.path.rstrip("/").endswith("/completions"):
        return f"{url!r} must be the address before /chat/completions"
    return None
