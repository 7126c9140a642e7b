"""The sandbox's rates: every tier is told, those that are not here with the reason."""

from __future__ import annotations

import json
from pathlib import Path

from evals.bench.sandbox import main
from loopeng.sandbox import tier_states


def test_each_tier_has_a_rate_or_a_reason(tmp_path: Path) -> None:
    output = tmp_path / "sandbox.json"
    assert main(["--runs", "2", "--repeats", "2", "--image", "no-such-image:1", "--output", str(output)]) == 0
    told = json.loads(output.read_text())["tiers"]
    assert told.keys() == tier_states("no-such-image:1").keys()
    assert "subprocess" in told
    for tier in told.values():
        assert tier.get("not_here") or 0 < tier["slowest"] <= tier["runs_per_second"] <= tier["fastest"]
