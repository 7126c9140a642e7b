"""What ``engine.model`` may name: told at load, so that a typing mistake is not found minutes later by a loader."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from loopeng.engines.model_names import EMBEDDED_MODEL_NAMES, local_model, problems_of_names
from loopeng.schema.task import EngineSpec


def problems(folder: Path, **keys: str) -> list[str]:
    return [problem.message for problem in problems_of_names(EngineSpec.model_validate(keys), folder)]


def test_good_names_pass(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").touch()
    (tmp_path / "x.GGUF").touch()
    here = [str(tmp_path / "mine"), "mine", "./mine/", "x.GGUF", str(tmp_path / "x.GGUF")]
    for model in (*EMBEDDED_MODEL_NAMES, *here, "HuggingFaceTB/SmolLM2-135M-Instruct"):
        assert problems(tmp_path, model=model) == []
    for device in ("auto", "cpu", "cuda", "cuda:0", "cuda:12"):
        assert problems(tmp_path, device=device) == []


@pytest.mark.parametrize("device", ["", "cuda:", "cuda:x", "cuda:0 ", "CPU", "mps"])
def test_other_devices_do_not(device: str, tmp_path: Path) -> None:
    assert problems(tmp_path, device=device) == [f"engine.device: unknown device {device!r}"]


def test_a_folder_beside_the_task_never_hides_an_embedded_model(tmp_path: Path) -> None:
    """A task means the same on every machine; ``./smollm2-135m`` names the folder."""
    (tmp_path / "smollm2-135m").mkdir()
    assert local_model("smollm2-135m", tmp_path) is None
    assert problems(tmp_path, model="smollm2-135m") == []
    assert "has no config.json" in problems(tmp_path, model="./smollm2-135m")[0]


def test_a_gguf_file_is_never_taken_for_a_hub_id(tmp_path: Path) -> None:
    assert "there is no file or folder" in problems(tmp_path, model="models/x.gguf")[0]


def test_names_are_those_of_the_core() -> None:
    torch = pytest.importorskip("torch")
    from specdec_core.embedded import EMBEDDED_MODELS
    from specdec_core.hardware import choose_device, choose_numerics

    assert set(EMBEDDED_MODEL_NAMES) == set(EMBEDDED_MODELS)
    for dtype in get_args(EngineSpec.model_fields["dtype"].annotation):
        assert choose_numerics(torch.device("cpu"), dtype=dtype).dtype
    assert choose_device("auto") and choose_device("cpu")
