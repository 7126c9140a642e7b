"""Keys of an ``engine:`` section that its kind does not read, or misses, and keys of servers: told without network."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from loopeng.engines.model_names import problems_of_names
from loopeng.errors import UsageError
from loopeng.schema.engine_section import KEYS_OF_ONE_KIND, EngineSpec
from loopeng.validation import Problem

__all__ = ["key_of", "key_problem", "problems_of_kind", "problems_of_server"]

_NEEDED = {
    "base_url": "where the server is, as in base_url: http://127.0.0.1:8000/v1",
    "model": "the server's name of it, as its /models lists it",
}


def problems_of_kind(spec: EngineSpec, base_dir: Path) -> Iterator[Problem]:
    """What is wrong with the keys of a section as somebody has written it: a stored one has them all."""
    for kind, keys in KEYS_OF_ONE_KIND.items():
        for key in sorted(keys & spec.model_fields_set) if kind != spec.kind else ():
            hint = f"write kind: {kind}, or remove the key"
            yield Problem(("engine", key), f"engine.{key} does not go with kind {spec.kind}", hint)
    if spec.kind == "specdec":
        yield from problems_of_names(spec, base_dir)
    if spec.kind == "openai":
        yield from problems_of_server(spec)


def problems_of_server(spec: EngineSpec) -> Iterator[Problem]:
    """What a server cannot be asked without."""
    for key, what in _NEEDED.items():
        if key not in spec.model_fields_set or not getattr(spec, key):
            yield Problem(("engine",), f"engine: kind openai needs the key '{key}'", what)


def key_of(spec: EngineSpec, environment: Mapping[str, str] = os.environ) -> str | None:
    """The key that the server is to get, out of the environment; None where the section names no variable.

    Raises UsageError where the variable holds nothing that can be sent. What it holds is never said.
    """
    if spec.api_key_env is None:
        return None
    key = environment.get(spec.api_key_env, "").strip()
    if not key:
        raise UsageError(f"engine.api_key_env: the environment variable {spec.api_key_env} is not set")
    if not (key.isascii() and key.isprintable()):
        raise UsageError(f"engine.api_key_env: what {spec.api_key_env} holds cannot be sent: it is no plain ASCII text")
    return key


def key_problem(spec: EngineSpec) -> str | None:
    """Why the server could not be asked from here, or None."""
    try:
        key_of(spec)
    except UsageError as error:
        return str(error)
    return None
