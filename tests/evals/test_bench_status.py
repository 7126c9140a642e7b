"""What a bench says where something is missing, and what it calls a model."""

from __future__ import annotations

from pathlib import Path

import pytest

from evals.bench import decode, lossless, make_retries
from evals.bench.machine import model_name


@pytest.mark.parametrize("bench", [decode, lossless, make_retries], ids=lambda module: module.__name__)
def test_missing_data_is_one_line_and_exit_status_2(bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--data", str(tmp_path)] + (["--model", "smollm2-135m"] if bench is make_retries else [])
    assert bench.main(options) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and str(tmp_path) in told and "SPECDEC_BENCH_DATA" in told


def test_a_model_has_one_name_from_the_hub_and_from_a_folder() -> None:
    """Recorded failures are found by it: they were lost to whoever named the model by its hub id."""
    assert model_name("Qwen/Qwen2.5-Coder-0.5B-Instruct") == "qwen2.5-coder-0.5b-instruct"
    assert model_name("/models/qwen2.5-coder-0.5b-instruct") == "qwen2.5-coder-0.5b-instruct"
