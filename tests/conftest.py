"""What all tests share."""

from __future__ import annotations

import pytest

REAL_MODEL_FIXTURES = {"embedded_folder"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that read the real model come last; tests marked ``cuda`` are skipped where there is no device."""
    items.sort(key=lambda item: not REAL_MODEL_FIXTURES.isdisjoint(getattr(item, "fixturenames", ())))
    needing_cuda = [item for item in items if item.get_closest_marker("cuda")]
    if needing_cuda and not _has_cuda():
        for item in needing_cuda:
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))


def _has_cuda() -> bool:
    import torch

    return torch.cuda.is_available()
