"""Which numerics a machine gets: a fixed table by device kind, instruction set and dtype. Timings never choose.

The measurements behind the rows were made once, by hand; every row carries its reason.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import torch

from specdec_core.errors import ModelLoadError, RequestError
from specdec_core.models.base import BITWISE_KV_BLOCK, CPU_KV_ZONES, Exactness, Geometry
from specdec_core.models.linear import can_pack

__all__ = [
    "HARDWARE_TABLE",
    "QUANTIZATION_TABLE",
    "HardwareRow",
    "Numerics",
    "QuantizationRow",
    "choose_device",
    "choose_numerics",
    "find_row",
    "instruction_set",
    "refuse_quantization",
]

_DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


@dataclass(frozen=True, slots=True)
class HardwareRow:
    """One row; ``"*"`` matches anything. The first row that matches counts."""

    device_kind: str  # "cpu", "cuda"
    instruction_set: str  # of instruction_set(), for CPUs
    dtype: str
    width: int  # rows of the widest decode pass
    exactness: Exactness  # the default; the self-test may still lower it
    packed: bool  # weights in oneDNN's layout
    reason: str
    narrow_widths: tuple[int, ...] = ()  # cheaper passes for short drafts, where the self-test finds the same bits


_PACKED = "with packed weights 4 to 8 rows cost what one does, 16 a third more, 32 twice (AVX512-BF16, 135M and 1.5B)"
HARDWARE_TABLE = (
    HardwareRow("cuda", "*", "bfloat16", 16, "bitwise", False, "16 rows share one read of the weights on tensor cores"),
    HardwareRow("cpu", "amx_bf16", "bfloat16", 32, "bitwise", True, "AMX tiles hold 16 rows, two of them 32", (16,)),
    HardwareRow("cpu", "avx512_bf16", "bfloat16", 32, "bitwise", True, _PACKED, (4, 8, 16)),
    HardwareRow(
        "cpu",
        "*",
        "float32",
        8,
        "law",
        True,
        "8 rows may cost more than one here; ask for bitwise to have the bits too",
        (4,),
    ),
    HardwareRow("*", "*", "*", 16, "law", False, "no measurement for this combination: only the law is promised"),
)
_DEFAULT_DTYPES = {
    ("cuda", "*"): "bfloat16",
    ("cpu", "amx_bf16"): "bfloat16",
    ("cpu", "avx512_bf16"): "bfloat16",  # here bf16 passes took 0.5 to 0.75 of the time of fp32 ones
}


@dataclass(frozen=True, slots=True)
class QuantizationRow:
    """What weight-only quantisation costs somewhere, against the packed bf16 linear; ``"*"`` matches anything."""

    scheme: str  # "int8", "int4"
    device_kind: str
    instruction_set: str
    refusal: str  # why it is not offered there


# Weight-only linears of the 135M and 1.5B against packed bf16 ones, interleaved in one process, one thread: medians of
# ratios, the ranges over both models and over a quiet and a busy machine. int8 is aten's _weight_int8pack_mm, int4 its
# _weight_int4pack_mm_for_cpu in groups of 32. A pass here has up to 32 rows, and must not lose at most of its widths.
QUANTIZATION_TABLE = (
    QuantizationRow(
        "int8",
        "cpu",
        "avx512_bf16",
        "its linears take 1.0 to 1.5 times those of bf16 at 4 rows, 1.4 to 2.1 at 8, 1.8 to 2.8 at 16, 2.1 to 4.3 at 32"
        " (0.65 to 0.75 at one row)",
    ),
    QuantizationRow(
        "int4",
        "cpu",
        "avx512_bf16",
        "its linears take 0.8 to 1.3 times those of bf16 at 8 rows, 1.4 to 1.9 at 16, 1.8 to 2.2 at 32 (0.3 to 0.5 at"
        " one row, 0.6 to 0.9 at 4)",
    ),
    QuantizationRow("*", "*", "*", "no pass faster than bf16's has been measured there"),
)


@dataclass(frozen=True, slots=True)
class Numerics:
    """What was chosen, and why."""

    device: torch.device
    dtype: torch.dtype
    geometry: Geometry
    packed: bool
    hardware: str  # "cpu:avx512_bf16", "cuda:NVIDIA H200"
    reasons: tuple[str, ...]


def choose_device(device: str) -> torch.device:
    """``auto`` is CUDA where there is one, else the CPU. Raises ModelLoadError for a device that is not there."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ModelLoadError(f"device {device!r} is not known; use 'auto', 'cpu', 'cuda' or 'cuda:0'") from error
    if chosen.type not in ("cpu", "cuda"):
        raise ModelLoadError(f"device {device!r} is not supported; use 'auto', 'cpu' or 'cuda'")
    if chosen.type == "cuda" and (chosen.index or 0) >= torch.cuda.device_count():
        raise ModelLoadError(f"device {device!r} is not there: torch sees {torch.cuda.device_count()} CUDA devices")
    return chosen


@cache
def instruction_set() -> str:
    """The widest CPU instruction set that matters: amx_bf16, avx512_bf16, avx512, avx2, or the machine's name."""
    flags = _cpu_flags()
    for name, needed in (
        ("amx_bf16", {"amx_bf16", "amx_tile"}),
        ("avx512_bf16", {"avx512_bf16"}),
        ("avx512", {"avx512f", "avx512bw", "avx512vl", "avx512dq"}),
        ("avx2", {"avx2"}),
    ):
        if needed <= flags:
            return name
    return platform.machine().lower() or "unknown"


def choose_numerics(
    device: torch.device, *, dtype: str = "auto", exactness: Exactness | None = None, width: int | None = None
) -> Numerics:
    """Numerics for a device: the table's row, changed only by what was asked for.

    Args:
        device: CPU or CUDA.
        dtype: "auto" or one of float64, float32, bfloat16, float16.
        exactness: None takes the row's default.
        width: Rows of the widest decode pass; None takes the row's.

    Raises:
        RequestError: an unknown dtype or exactness, or a width below 1.
    """
    isa = instruction_set() if device.type == "cpu" else "*"
    reasons = []
    if dtype == "auto":
        dtype = _DEFAULT_DTYPES.get((device.type, isa), "float32")
        reasons.append(f"dtype {dtype}: default for {device.type}" + (f" with {isa}" if isa != "*" else ""))
    if dtype not in _DTYPES:
        raise RequestError(f"dtype {dtype!r} is not known; use 'auto' or one of {', '.join(_DTYPES)}")
    if exactness not in (None, "bitwise", "law"):
        raise RequestError(f"exactness {exactness!r} is not known; use 'bitwise' or 'law'")
    if width is not None and width < 1:
        raise RequestError(f"width must be at least 1, got {width!r}")
    row = find_row(device.type, isa, dtype)
    widest = width or row.width
    narrow_widths = tuple(narrow for narrow in row.narrow_widths if narrow < widest)
    geometry = Geometry(exactness or row.exactness, widest, narrow_widths=narrow_widths)
    if geometry.exactness == "bitwise":
        zones = CPU_KV_ZONES if device.type == "cpu" else None
        geometry = replace(geometry, kv_block=BITWISE_KV_BLOCK, kv_zones=zones)
    reasons.append(f"exactness {geometry.exactness}" + (": as asked" if exactness else f": {row.reason}"))
    reasons.append(f"width {geometry.width}: " + ("as asked" if width else f"the table's for {device.type} {dtype}"))
    packed = row.packed and can_pack(device, _DTYPES[dtype])
    name = isa if device.type == "cpu" else torch.cuda.get_device_name(device)
    hardware = f"{device.type}:{name}" + ("+packed" if packed else "")
    return Numerics(device, _DTYPES[dtype], geometry, packed, hardware, tuple(reasons))


def find_row(device_kind: str, isa: str, dtype: str) -> HardwareRow:
    """The first row of the table that matches; the last one matches everything."""
    for row in HARDWARE_TABLE:
        if row.device_kind in ("*", device_kind) and row.instruction_set in ("*", isa) and row.dtype in ("*", dtype):
            return row
    raise AssertionError("the last row matches everything")


def refuse_quantization(scheme: str | None, device: torch.device) -> None:
    """Raise for a scheme that is asked for: none has been measured faster than bf16 at the widths of our passes.

    Args:
        scheme: None, "int8" or "int4".
        device: Where the model would run.

    Raises:
        RequestError: an unknown scheme.
        ModelLoadError: a known one, with what was measured on such a device.
    """
    if scheme is None:
        return
    if scheme not in ("int8", "int4"):
        raise RequestError(f"quantize {scheme!r} is not known; use None, 'int8' or 'int4'")
    isa = instruction_set() if device.type == "cpu" else "*"
    here = (scheme, device.type, isa)
    row = next(
        row
        for row in QUANTIZATION_TABLE
        if all(
            told in ("*", asked)
            for told, asked in zip((row.scheme, row.device_kind, row.instruction_set), here, strict=True)
        )
    )
    where = device.type + ("" if isa == "*" else f" with {isa}")
    raise ModelLoadError(f"quantize={scheme!r} is not supported on {where}: {row.refusal}; load the model without it")


def _cpu_flags() -> set[str]:
    """Flags of /proc/cpuinfo; elsewhere what torch tells, in the same words."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith(("flags", "Features")):
                return set(line.partition(":")[2].split())
    capability = torch.backends.cpu.get_cpu_capability()
    if capability == "AVX512":
        return {"avx512f", "avx512bw", "avx512vl", "avx512dq", "avx2"}
    return {"avx2"} if capability == "AVX2" else set()
