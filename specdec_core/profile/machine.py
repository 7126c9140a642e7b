"""What this machine is, and what it does at best: plain reads of memory, and one large matrix product."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

__all__ = ["MachinePeaks", "cpu_name", "last_level_cache_bytes", "machine_load", "measure_peaks", "timed"]

_NUM_TRIES = 5  # of which the best counts
_BUFFER_BYTES = {"cpu": 256 << 20, "cuda": 4 << 30}  # at least, and four times the last cache
_MATMUL_SIZES = {"cpu": 1024, "cuda": 8192}
_UNKNOWN_CACHE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class MachinePeaks:
    """The best of several tries, with all of torch's threads."""

    read_bytes_per_s: float  # summing a buffer that no cache holds
    matmul_flops_per_s: float  # of two square matrices of ``matmul_size``, in the model's dtype
    matmul_size: int

    @property
    def ridge(self) -> float:
        """FLOP per byte above which arithmetic, not memory, is the limit."""
        return self.matmul_flops_per_s / self.read_bytes_per_s

    def better(self, other: MachinePeaks) -> MachinePeaks:
        """The best of both, figure by figure."""
        return MachinePeaks(
            max(self.read_bytes_per_s, other.read_bytes_per_s),
            max(self.matmul_flops_per_s, other.matmul_flops_per_s),
            self.matmul_size,
        )


def measure_peaks(device: torch.device, dtype: torch.dtype, *, buffer_bytes: int | None = None) -> MachinePeaks:
    """Measure both figures; a second or so.

    Args:
        device: Where.
        dtype: Of the matrices.
        buffer_bytes: What is read; None is four times the last cache, and at least 256 MiB (4 GiB on CUDA).
    """
    num_bytes = buffer_bytes or _buffer_bytes(device)
    buffer = torch.ones(num_bytes // 4, dtype=torch.float32, device=device)
    read_time_s = _best_time_s(device, buffer.sum)
    size = _MATMUL_SIZES[device.type]
    left, right = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    matmul_time_s = _best_time_s(device, lambda: left @ right)
    return MachinePeaks(buffer.nbytes / read_time_s, 2 * size**3 / matmul_time_s, size)


def timed(device: torch.device, work: Callable[[], object]) -> float:
    """Seconds that ``work`` takes, all that it started on the device included."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    started = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - started


def cpu_name() -> str:
    """The processor's name as the system tells it; its architecture where it tells none."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine() or "unknown"


def machine_load() -> float | None:
    """Processes that ran or waited for a core in the last minute, on average; None where the system does not tell."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return None


def last_level_cache_bytes(device: torch.device) -> int:
    """Bytes of the largest cache; 64 MiB where the system does not tell."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).L2_cache_size)
    sizes = Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")
    kibibytes = [int(text[:-1]) for path in sizes if (text := path.read_text().strip())[-1:] == "K"]
    return max(kibibytes) << 10 if kibibytes else _UNKNOWN_CACHE_BYTES


def _buffer_bytes(device: torch.device) -> int:
    wanted = max(_BUFFER_BYTES[device.type], 4 * last_level_cache_bytes(device))
    if device.type != "cuda":
        return wanted
    return min(wanted, int(torch.cuda.mem_get_info(device)[0]) // 2)


@torch.inference_mode()
def _best_time_s(device: torch.device, work: Callable[[], object]) -> float:
    timed(device, work)  # the first call sets things up
    return min(timed(device, work) for _ in range(_NUM_TRIES))
