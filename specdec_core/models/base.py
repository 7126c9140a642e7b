"""What the decoder needs of a target model, and the geometry of its passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from torch import Tensor

from specdec_core.errors import ContextOverflowError, RequestError, VocabularyMismatchError

__all__ = [
    "BITWISE_KV_BLOCK",
    "CPU_KV_ZONES",
    "Exactness",
    "Geometry",
    "TargetModel",
    "check_ids",
    "check_pass",
    "check_prompt",
    "round_up",
]

Exactness = Literal["bitwise", "law"]


def round_up(value: int, block: int) -> int:
    """The smallest multiple of ``block`` that is at least ``value``.

    >>> round_up(65, 64), round_up(64, 64)
    (128, 64)
    """
    return -(-value // block) * block


BITWISE_KV_BLOCK = 512
"""Slots by which the extent of bitwise decode passes grows.

torch's attention on CPUs adds over blocks of 512 keys, and how it adds within the last one depends on its length: with
extents that grow by 64, one row in some thousands got other bits in bf16 where its pass ended behind 192, 256 or 320
slots of a block. Whole blocks agree.
"""


CPU_KV_ZONES = (192, 384)
"""Where within a block of 512 slots attention on CPUs adds up alike: extents up to the first, and from the second on.

Found with bf16 on AVX512-BF16 for heads of 64 and 128; the self-test tries it on each machine and model.
"""


@dataclass(frozen=True, slots=True)
class Geometry:
    """The shape of every pass: bits depend on shapes, so shapes are part of the contract.

    In ``bitwise`` exactness a decode pass has ``width`` rows or one of ``narrow_widths``, the fewest that hold its
    tokens (unused rows padded): the self-test keeps only narrow widths whose bits are those of ``width``. Prefill runs
    in chunks of exactly ``chunk`` rows counted from position 0. The last one, which is reused by no other prompt unless
    it is full, is only padded to a multiple of ``prefill_step``: its rows follow from the prompt's length. In ``law``
    exactness a pass has as many rows as there are tokens, at most ``width``. In both, the KV extent is counted from
    slot 0 and rounded up: of a decode pass to ``kv_block``, of a prefill chunk, whose place is fixed, to ``chunk``. Two
    passes may hold the same token with extents a block apart, so in ``bitwise`` exactness ``kv_block`` must be one
    whose full blocks attention adds up alike (see ``BITWISE_KV_BLOCK``).

    >>> [Geometry("bitwise", 16, narrow_widths=(4, 8)).num_decode_rows(num_tokens) for num_tokens in (1, 5, 9)]
    [4, 8, 16]
    """

    exactness: Exactness
    width: int
    chunk: int = 64
    kv_block: int = 64
    narrow_widths: tuple[int, ...] = ()  # ascending, each below width
    kv_zones: tuple[int, int] | None = None  # (short, long) slots of a block, see ``decode_extent``
    prefill_step: int = 8

    @property
    def widths(self) -> tuple[int, ...]:
        """Rows that a bitwise decode pass may have, ascending."""
        return (*self.narrow_widths, self.width)

    @property
    def max_draft_tokens(self) -> int:
        """The longest draft one pass can verify: one row belongs to the last emitted token."""
        return self.width - 1

    def decode_extent(self, start: int, num_rows: int) -> int:
        """Slots that a decode pass of ``num_rows`` from slot ``start`` attends over.

        Whole blocks; or by zones, where short extents agree among each other and long ones do: a pass that begins in
        the first ``short`` slots of a block attends over no more of the block than these, a later one over at least
        ``long`` of it, and in steps of the chunk. The tokens of a zone are read with its extents only, because
        ``num_tokens_from`` lets no pass go on from the first zone into the second.
        """
        if self.kv_zones is None:
            return round_up(start + num_rows, self.kv_block)
        short, long = self.kv_zones
        first, end = start - start % self.kv_block, round_up(start + num_rows, self.chunk)
        if start - first < short:
            return min(end, first + short)
        return max(end, first + long)

    def num_tokens_from(self, start: int) -> int:
        """The most tokens of a decode pass from slot ``start``."""
        place = start % self.kv_block
        if self.kv_zones is None or place >= self.kv_zones[0]:
            return self.width
        return min(self.width, self.kv_zones[0] - place)

    def num_decode_rows(self, num_tokens: int) -> int:
        """Rows of a decode pass over ``num_tokens`` tokens."""
        if self.exactness == "law":
            return num_tokens
        return next((width for width in self.narrow_widths if width >= num_tokens), self.width)

    def num_prefill_rows(self, num_tokens: int) -> int:
        """Rows of a prefill pass over ``num_tokens`` (at most ``chunk``) tokens.

        >>> [Geometry("bitwise", 16).num_prefill_rows(num_tokens) for num_tokens in (3, 9, 63, 64)]
        [8, 16, 64, 64]
        """
        if self.exactness == "law":
            return num_tokens
        return min(round_up(num_tokens, self.prefill_step), self.chunk)

    def num_slots(self, context_length: int) -> int:
        """Cache slots for ``context_length`` tokens: padded rows need somewhere to be written."""
        return round_up(context_length + max(self.width, self.chunk), self.kv_block)


@runtime_checkable
class TargetModel(Protocol):
    """A causal language model with a cache that rolls back. One sequence at a time.

    ``cache_length`` counts the tokens whose keys and values are valid. ``prefill`` and ``decode`` append to them;
    ``rollback`` moves the pointer back, and whatever lies beyond it is never read.
    """

    @property
    def vocab_size(self) -> int: ...

    @property
    def context_length(self) -> int:
        """The most tokens (prompt and output together) the model can hold."""
        ...

    @property
    def geometry(self) -> Geometry: ...

    @property
    def cache_length(self) -> int: ...

    @property
    def num_cached_prompt_tokens(self) -> int:
        """Tokens of the last prefill that were not computed: their keys and values were at hand. 0 without reuse."""
        ...

    def prefill(self, token_ids: Sequence[int], before_chunk: Callable[[], None] = lambda: None) -> Tensor:
        """Start a new sequence: forget the old one, read ``token_ids``, return the logits after the last, [vocab].

        A target that reads in chunks calls ``before_chunk`` before each; what that raises ends the reading.
        """
        ...

    def decode(self, token_ids: Sequence[int]) -> Tensor:
        """One pass over the next tokens (1 to ``geometry.width``): the logits after each, [num_tokens, vocab]."""
        ...

    def rollback(self, length: int) -> None:
        """Keep the first ``length`` tokens of the cache. Raises CacheRollbackError outside 0..cache_length."""
        ...


def check_prompt(target: TargetModel, token_ids: Sequence[int]) -> None:
    """Whether ``target`` can read a prompt and write a token behind it.

    Raises:
        RequestError: no tokens.
        ContextOverflowError: no room for one new token behind them.
        VocabularyMismatchError: an id outside the vocabulary.
    """
    if not len(token_ids):
        raise RequestError("the prompt is empty: give at least one token")
    check_ids(target, token_ids)
    if len(token_ids) >= target.context_length:
        raise ContextOverflowError(
            f"the prompt has {len(token_ids)} tokens and the context holds {target.context_length}, output included;"
            " shorten the prompt or load the model with a larger context_length"
        )


def check_pass(target: TargetModel, token_ids: Sequence[int]) -> None:
    """Whether ``token_ids`` can be the next decode pass of ``target``.

    Raises:
        RequestError: no tokens, or more than the width.
        ContextOverflowError: the tokens do not fit the context.
        VocabularyMismatchError: an id outside the vocabulary.
    """
    check_ids(target, token_ids)
    num_tokens, most = len(token_ids), target.geometry.num_tokens_from(target.cache_length)
    if num_tokens > most:
        raise RequestError(f"a decode pass holds at most {most} tokens, got {num_tokens}")
    if target.cache_length + num_tokens > target.context_length:
        raise ContextOverflowError(
            f"{target.cache_length} tokens and {num_tokens} more exceed the context of {target.context_length}"
        )


def check_ids(target: TargetModel, token_ids: Sequence[int]) -> None:
    """Raises RequestError for no tokens, VocabularyMismatchError for an id outside the vocabulary."""
    if not len(token_ids):
        raise RequestError("a pass needs at least one token")
    lowest, highest = min(token_ids), max(token_ids)
    if lowest < 0 or highest >= target.vocab_size:
        culprit = lowest if lowest < 0 else highest
        raise VocabularyMismatchError(f"token id {culprit!r} is outside the vocabulary of {target.vocab_size}")
