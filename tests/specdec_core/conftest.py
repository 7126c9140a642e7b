"""Read before any test module here, many of which import torch first: its threads would spin while they wait."""

from __future__ import annotations

import specdec_core  # noqa: F401  # sets OMP_WAIT_POLICY, which torch reads when it is loaded
