"""What a machine has for the engine, seen in cache folders as they may lie there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from specdec_core.cache_dir import METADATA_NAME, build_once, is_intact
from specdec_core.embedded import EMBEDDED_MODELS
from specdec_core.examining import examine_cache, examine_embedded_models

NAME, MODEL = next(iter(EMBEDDED_MODELS.items()))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "deep" / "cache"
    monkeypatch.setenv("SPECDEC_CACHE", str(folder))
    return folder


def build(folder: Path) -> dict[str, Any]:
    (folder / "model.safetensors").write_bytes(b"weights")
    return {"source": "nowhere"}


def state() -> str:
    (report,) = [each for each in examine_embedded_models() if each.name == NAME]
    return report.state


def test_an_embedded_model_is_absent_intact_damaged_or_unfinished(cache: Path) -> None:
    assert state() == "absent"
    folder = build_once(f"{NAME}-{MODEL.sha256[:12]}", build)
    assert state() == "intact" and is_intact(folder)
    (folder / "model.safetensors").write_bytes(b"weIghts")  # as long as before: only the checksum can tell
    assert state() == "damaged" and not is_intact(folder)
    (folder / "model.safetensors").write_bytes(b"w")
    assert state() == "damaged"
    (folder / METADATA_NAME).unlink()
    assert state() == "unfinished"


def test_the_cache_folder_need_not_be_there_to_be_examined(cache: Path) -> None:
    report = examine_cache()
    assert (report.folder, report.exists, report.writable) == (cache, False, True)
    assert report.free_bytes > 0 and not cache.exists()
    cache.mkdir(parents=True)
    assert examine_cache().exists and list(cache.iterdir()) == []


def test_a_file_where_the_cache_folder_should_be_takes_no_files(cache: Path) -> None:
    cache.parent.mkdir()
    cache.write_text("in the way")
    assert not examine_cache().writable
