"""The device benchmark runs end to end over a tiny shape, and its JSON line holds what it promises."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import torch

from evals.bench.gpu import ROWS, SHAPES, RandomTensors, main

ROOT = Path(__file__).parents[2]


@pytest.mark.usefixtures("one_thread")
def test_the_smoke_test_writes_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "gpu.json"
    assert main(["--tiny", "--output", str(output), "--device-tests", "passed"]) == 0
    text = output.read_text(encoding="utf-8")
    assert text == capsys.readouterr().out and text.count("\n") == 1
    line = json.loads(text)
    assert line["device_tests"] == "passed" and line["hardware"] and line["date"].startswith("20")
    (result,) = line["results"]
    assert result["self_test"] == "passed"
    assert {arm: set(times) for arm, times in result["pass_ms"].items()} == {
        arm: set(map(str, ROWS)) for arm in ("eager", "graph")
    }
    assert result["decode"]["texts_equal"] is True
    assert result["decode"]["acceptance_length"] == {"plain": 1.0, "oracle": 15.0, "anti-oracle": 1.0}


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a device")
def test_without_a_device_nothing_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "gpu.json"
    assert main(["--output", str(output)]) == 2
    assert not output.exists()
    assert "no CUDA device" in capsys.readouterr().err


@pytest.mark.parametrize(("shape", "billions"), [("1B", 1.236), ("8B", 7.505)])
def test_the_floor_counts_the_weights_a_pass_reads(shape: str, billions: float) -> None:
    """Llama-3.2-1B has 1.236e9 parameters, its head is its embedding; an 8B's 8.03e9 less the embedding's 0.525e9."""
    tensors = RandomTensors(SHAPES[shape], torch.device("cpu"), torch.bfloat16)
    assert tensors.bytes_per_pass() / 2e9 == pytest.approx(billions, rel=1e-3)


def test_the_script_is_sound_shell_within_eight_minutes() -> None:
    script = ROOT / "evals" / "bench" / "gpu.sh"
    subprocess.run(["sh", "-n", str(script)], check=True)
    limits = [int(line.split()[1]) for line in script.read_text().splitlines() if line.startswith("timeout ")]
    assert len(limits) == 2 and sum(limits) < 480
