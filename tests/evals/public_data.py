"""The public data that some tests read; it is no part of the repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from evals.bench.decode_options import DATA_VARIABLE, DataMissingError, data_folder


def public_file(name: str) -> Path:
    """A file of the public data; skips the test, saying why, where it is not there."""
    try:
        path = data_folder() / name
    except DataMissingError as error:
        pytest.skip(str(error))
    if not path.is_file():
        pytest.skip(f"{name} is not in {path.parent}: give the folder in {DATA_VARIABLE}")
    return path
