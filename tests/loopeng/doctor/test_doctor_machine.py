"""Models, their cache, the sandbox, and what the environment says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from loopeng.doctor import examine_machine, examine_surroundings
from tests.loopeng.doctor.conftest import by_name


def test_the_sandbox_tells_every_tier(monkeypatch: pytest.MonkeyPatch) -> None:
    from loopeng.doctor import examine_sandbox
    from loopeng.sandbox import TIERS, tier_states

    found = examine_sandbox()
    strong = [name for name, problem in tier_states().items() if problem is None and name != "subprocess"]
    assert (found.status == "ok") == bool(strong) and (found.remedy is None) == bool(strong)
    assert all(name in found.text for name in TIERS)


def test_a_damaged_model_and_a_cache_that_takes_nothing_are_in_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from specdec_core.cache_dir import build_once
    from specdec_core.embedded import EMBEDDED_MODELS

    cache = tmp_path / "cache"
    monkeypatch.setenv("SPECDEC_CACHE", str(cache))
    monkeypatch.setenv("PYTHONPATH", str(fake_torch(tmp_path)))  # torch is not what is looked at here

    def build(folder: Path) -> dict[str, Any]:
        (folder / "model.safetensors").write_bytes(b"weights")
        return {}

    model = EMBEDDED_MODELS["smollm2-135m"]
    weights = build_once(f"{model.name}-{model.sha256[:12]}", build) / "model.safetensors"
    assert by_name(examine_machine())["model"].status == "ok"
    weights.write_bytes(b"wEights")
    told = by_name(examine_machine())["model"]
    assert told.status == "fail" and told.remedy == f"remove {weights.parent}"
    monkeypatch.setenv("SPECDEC_CACHE", str(weights))
    told = by_name(examine_machine())["cache"]
    assert told.status == "fail" and "not writable" in told.text


def fake_torch(folder: Path) -> Path:
    (folder / "fake").mkdir()
    (folder / "fake" / "torch.py").write_text("raise ImportError('none')")
    return folder / "fake"


@pytest.mark.parametrize(
    ("secret", "status"), [(None, "ok"), ("whsec_c2VjcmV0", "ok"), ("whsec_not base64", "warn"), (" ", "warn")]
)
def test_the_secret_of_the_webhook(monkeypatch: pytest.MonkeyPatch, secret: str | None, status: str) -> None:
    monkeypatch.delenv("LOOPENG_WEBHOOK_SECRET", raising=False)
    if secret is not None:
        monkeypatch.setenv("LOOPENG_WEBHOOK_SECRET", secret)
    told = by_name(examine_surroundings("utf-8"))
    assert (told["webhook"].status, told["terminal"].status) == (status, "ok")
    assert secret is None or secret.strip() == "" or secret not in str(told["webhook"])
