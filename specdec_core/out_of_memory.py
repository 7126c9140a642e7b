"""Out of memory, said in one way: torch has an error class of its own on CUDA and a plain RuntimeError on the CPU."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from specdec_core.errors import OutOfMemoryError

__all__ = ["is_out_of_memory", "saying_what_to_lower"]

_SIGNS = ("can't allocate memory", "out of memory", "not enough memory", "alloc_failed")  # in torch's RuntimeErrors


@contextmanager
def saying_what_to_lower(doing: str) -> Iterator[None]:
    """Turn every kind of out of memory into an OutOfMemoryError that says what to do; other errors pass.

    >>> with saying_what_to_lower("reading the prompt"):
    ...     raise MemoryError  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    specdec_core.errors.OutOfMemoryError: out of memory while reading the prompt (MemoryError): lower context_length ...
    """
    try:
        yield
    except OutOfMemoryError:
        raise
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        cause = ": ".join(filter(None, (type(error).__name__, str(error).strip().partition("\n")[0])))
        raise OutOfMemoryError(
            f"out of memory while {doing} ({cause}): lower context_length or prefix_cache_bytes, or choose a smaller"
            " model or a dtype of fewer bytes (bfloat16)"
        ) from error


def is_out_of_memory(error: BaseException) -> bool:
    """Whether Python, the operating system or torch (on any device) says that memory is used up."""
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    told = isinstance(error, RuntimeError) and any(sign in str(error).lower() for sign in _SIGNS)
    return isinstance(error, MemoryError) or told  # torch.OutOfMemoryError is a RuntimeError
