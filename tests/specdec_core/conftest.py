"""Read before any test module here, many of which import torch first: its threads would spin while they wait."""

from __future__ import annotations

import pytest

import specdec_core  # noqa: F401  # sets OMP_WAIT_POLICY, which torch reads when it is loaded


@pytest.fixture(autouse=True)
def _tiny_models_take_one_thread(request: pytest.FixtureRequest) -> None:
    """All tests here but those of the real model, which has enough to do for every thread."""
    if "embedded_folder" not in request.fixturenames:
        request.getfixturevalue("one_thread")
