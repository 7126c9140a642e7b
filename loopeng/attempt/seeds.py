"""The seed of an attempt: equal wherever the same attempt of the same sample is made, different elsewhere."""

from __future__ import annotations

import hashlib
import json

__all__ = ["attempt_seed"]


def attempt_seed(run_seed: int, sample_id: str, attempt_index: int, repeat: int) -> int:
    """A 63-bit non-negative number. The run's id plays no part: both arms of a gate draw the same noise.

    >>> attempt_seed(0, "mug", 0, 0) == attempt_seed(0, "mug", 0, 0), attempt_seed(0, "mug", 1, 0) < 2**63
    (True, True)
    """
    key = json.dumps([run_seed, sample_id, attempt_index, repeat])
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8]) >> 1
