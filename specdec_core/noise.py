"""Noise that is keyed, not drawn in sequence: the same on CPU and CUDA, whatever was drafted or rejected before.

A counter-based integer hash (SplitMix64; Steele, Lea, Flood 2014) of (seed, stream, generated index, token id). Work
that is thrown away advances nothing. Rejection sampling needs several random quantities at one index that do not know
of each other, and each has its own stream.
"""

from __future__ import annotations

from enum import IntEnum

import torch
from torch import Tensor

__all__ = ["Stream", "draft_stream", "position_noise", "position_uniform"]

_MASK64 = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15  # constants of SplitMix64
_MIX_1 = 0xBF58476D1CE4E5B9
_MIX_2 = 0x94D049BB133111EB


class Stream(IntEnum):
    """What noise is for. One stream serves one purpose: shared noise would bias rejection sampling."""

    TARGET = 0  # the target's own choice; in match mode the draft's too
    ACCEPT = 1  # rejection mode: whether a draft token stands
    RESIDUAL = 2  # rejection mode: the token in place of a rejected one
    DRAFT = 3  # rejection mode: what a drafter draws, from here on a stream for every round: see draft_stream


def draft_stream(num_generated: int) -> int:
    """The stream of a draft that begins when ``num_generated`` tokens are emitted.

    Places behind a rejection are drafted again in the next round. With the noise of before, who looked at the refused
    draft would know the next one, and whether it is verified may hang on that: drafts must be drawn anew.

    >>> draft_stream(1) == draft_stream(2)
    False
    """
    return Stream.DRAFT + num_generated


def position_noise(seed: int, index: int, token_ids: Tensor, stream: int = Stream.TARGET) -> Tensor:
    """Gumbel noise for ``token_ids`` [num] (int64) at generated ``index``, [num] in float64.

    It does not depend on which other tokens are asked for.

    >>> a = position_noise(1, 5, torch.tensor([3, 9]))
    >>> bool((a[1:] == position_noise(1, 5, torch.tensor([9]))).all())
    True
    >>> bool((a == position_noise(1, 5, torch.tensor([3, 9]), Stream.DRAFT)).any())
    False
    """
    return _gumbel(_mix(token_ids * _signed(_GOLDEN) + _signed(_key(seed, index, stream))))


def position_uniform(seed: int, index: int, stream: int) -> float:
    """A uniform number in (0, 1), never an end, for one decision at generated ``index``.

    >>> 0 < position_uniform(1, 5, Stream.ACCEPT) < 1
    True
    """
    return ((_mix_int(_key(seed, index, stream)) >> 12) + 0.5) * 2.0**-52


def _key(seed: int, index: int, stream: int) -> int:
    """The seed of a stream is the (stream + 1)-th output of SplitMix64; the index is hashed into it."""
    return _mix_int(_mix_int(seed + (stream + 1) * _GOLDEN) ^ (index * _MIX_2 + _GOLDEN))


def _gumbel(bits: Tensor) -> Tensor:
    """Gumbel noise from 64 random bits each. 52 of them: with 53 the half would round up, and 1.0 give infinity."""
    uniform = (_shift_right(bits, 12).double() + 0.5) * 2.0**-52  # in (0, 1), never an end
    return -torch.log(-torch.log(uniform))


def _mix_int(value: int) -> int:
    value &= _MASK64
    value = ((value ^ (value >> 30)) * _MIX_1) & _MASK64
    value = ((value ^ (value >> 27)) * _MIX_2) & _MASK64
    return value ^ (value >> 31)


def _mix(values: Tensor) -> Tensor:
    """``_mix_int`` on int64 tensors, whose products wrap around modulo 2**64."""
    values = (values ^ _shift_right(values, 30)) * _signed(_MIX_1)
    values = (values ^ _shift_right(values, 27)) * _signed(_MIX_2)
    return values ^ _shift_right(values, 31)


def _shift_right(values: Tensor, bits: int) -> Tensor:
    """Logical shift: torch's own keeps the sign."""
    return (values >> bits) & ((1 << (64 - bits)) - 1)


def _signed(value: int) -> int:
    """The int64 with the same 64 bits."""
    value &= _MASK64
    return value - (1 << 64) if value >> 63 else value
