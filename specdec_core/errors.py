"""Errors of the speculative core. Each leaf changes what the caller should do.

SpecDecError
├── RequestError                 the request is wrong: mend it and call again; the engine stays usable
│   ├── ContextOverflowError         prompt (plus at least one new token) does not fit the context: shorten it
│   └── VocabularyMismatchError      a token id lies outside the model's vocabulary, or two vocabularies differ
├── ModelLoadError               the model reference cannot become a model: the message says what to run
├── ExactnessError               ``exactness="bitwise"`` was asked for and the self-test failed on this machine
├── OutOfMemoryError             memory is used up: lower context_length or prefix_cache_bytes, or take a smaller model
├── CacheRollbackError           a cache pointer was moved outside the written slots: a bug in the caller
└── DrafterError                 a drafter raised or returned nonsense: choose another one
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = [
    "CacheRollbackError",
    "ContextOverflowError",
    "DrafterError",
    "ExactnessError",
    "ModelLoadError",
    "OutOfMemoryError",
    "RequestError",
    "SpecDecError",
    "VocabularyMismatchError",
    "in_field",
]


class SpecDecError(Exception):
    """Root of every error this package raises on purpose."""


class RequestError(SpecDecError, ValueError):
    """The request cannot be served as it stands. ``field`` names the part of it that is wrong, where that is known."""

    field: str | None = None


class ContextOverflowError(RequestError):
    """The prompt leaves no room for a new token in the model's context."""


class VocabularyMismatchError(RequestError):
    """A token id is outside the vocabulary, or draft and target vocabularies differ."""


class ModelLoadError(SpecDecError):
    """A model reference could not be loaded."""


class ExactnessError(SpecDecError):
    """Bitwise exactness was asked for explicitly and does not hold here."""


class OutOfMemoryError(SpecDecError, MemoryError):
    """Memory of the machine or the device is used up; the message says what to lower."""


class CacheRollbackError(SpecDecError):
    """A rollback outside the slots that were written."""


class DrafterError(SpecDecError):
    """A drafter raised, or proposed tokens that cannot be verified."""


@contextmanager
def in_field(name: str) -> Iterator[None]:
    """Errors of a request that come out of the block are about its field ``name``, unless they name one already.

    >>> try:
    ...     with in_field("prompt"):
    ...         raise RequestError("no tokens")
    ... except RequestError as error:
    ...     print(error.field)
    prompt
    """
    try:
        yield
    except RequestError as error:
        error.field = error.field or name
        raise
