"""How a bench ends: what a person can mend is one line and exit status 2, not a traceback."""

from __future__ import annotations

import sys
from collections.abc import Callable

from evals.bench.checkpoint import CheckpointError
from evals.bench.decode_options import DataMissingError
from specdec_core.errors import SpecDecError


def status_of(run: Callable[[], int]) -> int:
    """What ``run`` returns; 2 where data, a checkpoint or a model is missing or does not fit."""
    try:
        return run()
    except (CheckpointError, DataMissingError, SpecDecError) as error:
        print(error, file=sys.stderr)
        return 2
