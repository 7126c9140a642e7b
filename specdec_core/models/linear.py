"""Linear layers: plain, or with the weight stored once in oneDNN's blocked layout (CPU).

Packing halves the time of a pass here (135M, 2 cores AVX512-BF16, 8 rows: bf16 26 -> 15 ms, fp32 63 -> 27 ms) because
the plain layout is reordered inside every call. The operators are the ones torch's own compiler emits for frozen
linears.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["Linear", "PackedLinear", "PlainLinear", "can_pack", "make_linear"]

_PACKED_DTYPES = (torch.float32, torch.bfloat16)
_PACKING_ROWS = 16  # a hint to oneDNN; packings for 8 and 16 rows were the same speed


class Linear(Protocol):
    """y = x W^T + b (+ residual), over rows."""

    def __call__(self, rows: Tensor, residual: Tensor | None = None) -> Tensor:
        """[num_rows, in] -> [num_rows, out]; ``residual`` is [num_rows, out] and is not changed."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes of weight and bias: what a pass reads of memory for this layer."""
        ...


class PlainLinear:
    """``torch.nn.functional.linear`` on the weight as it is."""

    __slots__ = ("_bias", "_weight")

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._weight = weight  # [out, in]
        self._bias = bias  # [out]

    def __call__(self, rows: Tensor, residual: Tensor | None = None) -> Tensor:
        output = functional.linear(rows, self._weight, self._bias)
        return output if residual is None else output.add_(residual)

    @property
    def nbytes(self) -> int:
        return self._weight.nbytes + (0 if self._bias is None else self._bias.nbytes)


class PackedLinear:
    """The same with a oneDNN-packed weight; the residual is added inside the kernel, before rounding."""

    __slots__ = ("_bias", "_linear", "_linear_add", "_nbytes", "_weight")

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), _PACKING_ROWS)
        self._bias = bias
        self._nbytes = weight.nbytes + (0 if bias is None else bias.nbytes)
        self._linear = torch.ops.mkldnn._linear_pointwise.default
        self._linear_add = torch.ops.mkldnn._linear_pointwise.binary

    def __call__(self, rows: Tensor, residual: Tensor | None = None) -> Tensor:
        if residual is None:
            output: Tensor = self._linear(rows, self._weight, self._bias, "none", [], "")
        else:
            output = self._linear_add(rows, residual, self._weight, self._bias, "add")
        return output

    @property
    def nbytes(self) -> int:
        return self._nbytes


def can_pack(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether this build of torch can pack weights of this dtype for this device."""
    if device.type != "cpu" or dtype not in _PACKED_DTYPES or not torch.backends.mkldnn.is_available():
        return False
    operators = torch.ops.mkldnn
    if not (hasattr(operators, "_reorder_linear_weight") and hasattr(operators, "_linear_pointwise")):
        return False
    return dtype == torch.float32 or bool(operators._is_mkldnn_bf16_supported())


def make_linear(weight: Tensor, bias: Tensor | None, *, packed: bool) -> Linear:
    """A linear over ``weight`` [out, in] and ``bias`` [out]; packed where asked for and possible."""
    if packed and can_pack(weight.device, weight.dtype):
        return PackedLinear(weight, bias)
    return PlainLinear(weight, bias)
