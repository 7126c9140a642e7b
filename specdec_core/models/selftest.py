"""The load-time test of bitwise exactness: the bits of a row depend on nothing but the sequence before it.

It plays the contract itself: one pass over W tokens against W passes of one token each (padded to W rows), at places
where the KV extent grows. So each token's row is compared between two places in the pass, with other neighbours, other
rows after it, and another extent.

Few layers and a made-up past suffice, and keep it within a second: which kernel runs, and in which order it adds, is
decided by shapes, dtypes and strides, and these are the same in every layer and for any values. A different order of
addition shows in the hidden state within two layers, because thousands of sums per row would all have to round alike.
The head has a shape of its own and is compared by moving rows through it. Attention is tried by itself as well: where
its bits depend on the extent they do so in one row of thousands, which a few passes do not meet.

Narrower passes are welcome where they give the very bits of the widest ones: ``agreeing_widths`` plays the same tokens
through both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

from specdec_core.models.runner import LlamaTarget

__all__ = ["agreeing_widths", "find_variance"]

_NUM_LAYERS = 2
_EXTENTS = (64, 512, 1024)  # 64 against 128, and both sides of the block sizes attention kernels are known to use
_SEED = 20240229
_NUM_ATTENTION_TRIALS = 16  # a dependence that one trial in 20 meets shows at one of several extents


@torch.inference_mode()
def find_variance(target: LlamaTarget) -> str | None:
    """None where rows are invariant under the target's geometry; else one sentence on the first difference found.

    Decode passes are tried around slots 64, 512, 1024 and the last full block of the context, prefill chunks at the
    first and last place. The cache is used as scratch: its pointer ends at 0.
    """
    target.rollback(0)
    trial = _Trial(target)
    last_place = target.context_length - 1
    last_chunk = last_place // target.geometry.chunk * target.geometry.chunk
    checks: list[Callable[[], str | None]] = [
        trial.head_variance,
        trial.extent_variance,
        *(partial(trial.decode_variance, boundary) for boundary in _boundaries(target)),
        *(partial(trial.prefill_variance, start) for start in sorted({0, last_chunk})),
    ]
    return next((variance for check in checks if (variance := check()) is not None), None)


@torch.inference_mode()
def agreeing_widths(target: LlamaTarget) -> tuple[int, ...]:
    """The narrow widths of the target's geometry whose rows have the bits of its widest passes, ascending."""
    target.rollback(0)
    trial = _Trial(target)
    return tuple(
        narrow
        for narrow in target.geometry.narrow_widths
        if trial.narrow_head_agrees(narrow)
        and trial.narrow_attention_agrees(narrow)
        and all(trial.narrow_agrees(narrow, boundary) for boundary in _boundaries(target))
    )


def _boundaries(target: LlamaTarget) -> list[int]:
    """Slots around which decode passes are tried; the last place where the context is shorter than a block."""
    last_place = target.context_length - 1
    boundaries = sorted({extent for extent in (*_EXTENTS, last_place // 64 * 64) if 0 < extent <= last_place})
    return boundaries or [last_place]


class _Trial:
    """Passes over one random sequence whose past is random keys and values."""

    def __init__(self, target: LlamaTarget) -> None:
        self._target = target
        self._network = target.network
        self._cache = target.cache
        self._geometry = target.geometry
        self._last_place = target.context_length - 1
        generator = torch.Generator().manual_seed(_SEED)
        vocab_size = target.vocab_size
        num_ids = 2 * max(self._geometry.width, self._geometry.chunk)
        self._ids: list[int] = torch.randint(vocab_size, (num_ids,), generator=generator).tolist()
        self._fill_past(generator)

    def head_variance(self) -> str | None:
        """Rows through the head at other places, and among other rows."""
        width = self._geometry.width
        rows = self._pass(self._ids[:width], 0, width)
        logits = self._network.logits(rows)
        for shift in sorted({1, width // 2, width - 1}):
            if not torch.equal(self._network.logits(rows.roll(shift, 0)).roll(-shift, 0), logits):
                return f"the head's rows depend on their place among {width}"
        rows = rows.clone()
        rows[1:] = 0
        if not torch.equal(self._network.logits(rows)[0], logits[0]):
            return f"the head's rows depend on their neighbours ({width} rows)"
        return None

    def extent_variance(self) -> str | None:
        """Attention of the widest passes that end where an extent does, over it and over the next one."""
        found = self._attention_that_differs(self._geometry.width)
        if found is None:
            return None
        return f"attention of a row differs between extents of {found[0]} and {found[1]} slots"

    def narrow_attention_agrees(self, narrow: int) -> bool:
        """Whether attention of ``narrow`` rows has the bits of the widest passes, over the next extent."""
        return self._attention_that_differs(narrow) is None

    def _attention_that_differs(self, num_rows: int) -> tuple[int, int] | None:
        """The first extents between which ``num_rows`` rows of attention over one, and wide over the next, differ."""
        generator = torch.Generator().manual_seed(_SEED)
        for extent, following in self._extent_pairs():
            for trial in range(_NUM_ATTENTION_TRIALS):
                queries = self._queries(generator)
                first = max(0, extent - self._geometry.width - trial)
                wide = self._attended(queries, first, following)[:, :, :num_rows]
                if not torch.equal(self._attended(queries[:, :, :num_rows], first, extent), wide):
                    return extent, following
        return None

    def _extent_pairs(self) -> list[tuple[int, int]]:
        """Extents under which one token may be read: all up to the largest of ``_EXTENTS``, and the last."""
        extent_of, room_of = self._target.decode_extent, self._geometry.num_tokens_from
        longest = [extent_of(start, room_of(start)) for start in range(self._last_place)]
        pairs = {(extent_of(start, 1), longest[start]) for start in range(self._last_place)}
        pairs |= {  # a pass and the one from its second token on
            (extent_of(start + 1, 1), longest[start]) for start in range(self._last_place - 1) if room_of(start) > 1
        }
        ordered = sorted((min(pair), max(pair)) for pair in pairs if pair[0] != pair[1])
        return [pair for pair in ordered if pair[0] <= _EXTENTS[-1]] + ordered[-1:]

    def _queries(self, generator: torch.Generator) -> Tensor:
        """Of one pass: [kv heads, groups, width, head_dim]."""
        config = self._network.config
        shape = (config.num_kv_heads, config.num_groups, self._geometry.width, config.head_dim)
        return torch.randn(shape, generator=generator).to(self._network.device, self._network.dtype)

    def _attended(self, queries: Tensor, start: int, extent: int) -> Tensor:
        """What queries [kv heads, groups, rows, head_dim] from position ``start`` on get from the past, likewise."""
        keys, values = self._cache.read(0, extent)
        mask = self._network.mask(queries.shape[2], start, extent)
        with self._network.attention_backends():
            rows = self._network.attention(queries.flatten(1, 2)[None], keys[None], values[None], mask)
        return rows.view_as(queries)

    def decode_variance(self, boundary: int) -> str | None:
        """Decode passes over the W positions around slot ``boundary``, and over those that end exactly there."""
        width = self._geometry.width
        highest = max(0, self._last_place - width)
        for first in sorted({max(0, min(boundary - width // 2, highest)), max(0, min(boundary - width, highest))}):
            if self._geometry.num_tokens_from(first) < width:
                continue  # no pass goes on from there over the border of a zone
            ids = self._ids[:width]
            together = self._pass(ids, first, width)
            for place in _places(width):
                wrong = self._ids[width : 2 * width - place - 1]  # a rejected draft instead of the padding
                for rows_after in ([], wrong):
                    alone = self._pass([ids[place], *rows_after], first + place, width)
                    if not torch.equal(alone[0], together[place]):
                        return (
                            f"a decode row at position {first + place} differs between row {place} and row 0"
                            f" ({width} rows, extents around {boundary})"
                        )
        return None

    def narrow_agrees(self, narrow: int, boundary: int) -> bool:
        """Whether passes of ``narrow`` rows give the hidden bits of the widest pass around slot ``boundary``.

        Full passes cover every row of the wide one; in padded ones a token stands alone.
        """
        width = self._geometry.width
        first = max(0, min(boundary - width // 2, self._last_place - width))
        if self._geometry.num_tokens_from(first) < width:
            return True  # no pass goes on from there over the border of a zone
        ids = self._ids[:width]
        together = self._pass(ids, first, width)
        full = [(place, narrow) for place in {*range(0, width - narrow, narrow), width - narrow}]
        alone = [(place, 1) for place in (0, 1, width - narrow)]
        for place, num_tokens in sorted([*full, *alone], reverse=True):  # highest first, as below
            rows = self._pass(ids[place : place + num_tokens], first + place, narrow)[:num_tokens]
            if not torch.equal(rows, together[place : place + num_tokens]):
                return False
        return True

    def narrow_head_agrees(self, narrow: int) -> bool:
        """Whether the head of ``narrow`` rows gives the bits of the widest one."""
        rows = self._pass(self._ids[: self._geometry.width], 0, self._geometry.width)
        return torch.equal(self._network.logits(rows[:narrow]), self._network.logits(rows)[:narrow])

    def prefill_variance(self, start: int) -> str | None:
        """Chunks whose second halves differ, or are padding: the rows of the first half must not."""
        chunk = self._geometry.chunk
        half = max(1, chunk // 2)
        ids, others = self._ids[:chunk], self._ids[chunk:]
        whole = self._pass(ids, start, chunk)[:half]
        for changed in (ids[:half] + others[: chunk - half], ids[:half]):
            again = self._pass(changed, start, chunk)[:half]
            if not torch.equal(whole, again):
                return f"prefill rows from position {start} on differ with the rows after them ({chunk} rows)"
        last_row = whole.narrow(0, half - 1, 1)  # a prompt's logits come from a view like this one
        if not torch.equal(self._network.logits(last_row), self._network.logits(again.narrow(0, half - 1, 1))):
            return "the head of a single row differs between two calls"
        return None

    def _pass(self, token_ids: list[int], start: int, num_rows: int) -> Tensor:
        padded_ids = token_ids + [0] * (num_rows - len(token_ids))
        row_ids = torch.tensor(padded_ids, dtype=torch.int64, device=self._network.device)
        of_decode = num_rows in self._geometry.widths  # a chunk as wide as a decode pass is tried as one
        extent_of = self._target.decode_extent if of_decode else self._target.prefill_extent
        extent = extent_of(start, num_rows)
        return self._network.forward(row_ids, start, extent, self._cache, num_layers=_NUM_LAYERS)

    def _fill_past(self, generator: torch.Generator) -> None:
        """Random keys and values in every slot of the layers that run: one block of numbers, laid out repeatedly."""
        config = self._network.config
        block = torch.randn(64, 2 * config.num_kv_heads, config.head_dim, generator=generator)
        block = block.to(device=self._network.device, dtype=self._network.dtype)
        for layer_id in range(min(_NUM_LAYERS, config.num_layers)):
            for shift, start in enumerate(range(0, self._cache.num_slots - 63, 64)):
                self._cache.write(layer_id, start, block.roll(shift, 0))


def _places(width: int) -> Iterator[int]:
    """Rows to compare: both ends, the middle, and the multiples of 4, where kernels change their blocking.

    Highest first: a pass overwrites the slots behind its first row, which lower places do not read.
    """
    yield from sorted({0, 1, width // 2, width - 1, *range(0, width, 4)} & set(range(width)), reverse=True)
