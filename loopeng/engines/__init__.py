"""Text engines: the speculative core, OpenAI-compatible servers, a script for tests, any callable of the user's.

Nothing heavy is imported here: each kind loads its room when it is built.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from loopeng.engines.awaiting import finish
from loopeng.engines.bare import CallableEngine, as_engine
from loopeng.engines.bound import MeteredEngine
from loopeng.engines.lazy import LazyEngine
from loopeng.engines.patience import generate_patiently
from loopeng.ports import TextEngine
from loopeng.schema.task import EngineSpec

__all__ = [
    "CallableEngine",
    "LazyEngine",
    "MeteredEngine",
    "as_engine",
    "build_engine",
    "finish",
    "generate_patiently",
]


def build_engine(spec: EngineSpec, base_dir: Path | None = None) -> TextEngine:
    """Make the engine a task names; scripts are found relative to ``base_dir``.

    Raises TaskError where the script is missing or wrong, EngineError where the model cannot be loaded, UsageError
    where the environment does not hold the key of a server.
    """
    return _BUILDERS[spec.kind](spec, base_dir)


def _build_specdec(spec: EngineSpec, base_dir: Path | None) -> TextEngine:
    from loopeng.engines.specdec import SpecDecEngine

    return SpecDecEngine.from_spec(spec, base_dir)


def _build_openai(spec: EngineSpec, base_dir: Path | None) -> TextEngine:
    from loopeng.engines.openai_http import OpenAIEngine

    return OpenAIEngine.from_spec(spec, base_dir)


def _build_scripted(spec: EngineSpec, base_dir: Path | None) -> TextEngine:
    from loopeng.engines.scripted import ScriptedEngine

    return ScriptedEngine.from_spec(spec, base_dir)


_BUILDERS: dict[str, Callable[[EngineSpec, Path | None], TextEngine]] = {
    "specdec": _build_specdec,
    "openai": _build_openai,
    "scripted": _build_scripted,
}
