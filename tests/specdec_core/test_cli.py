from __future__ import annotations

import json
import subprocess
import sys

import pytest

ARGUMENTS = ["generate", "-p", "Name three fruits.", "--max-tokens", "24"]


def specdec(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "specdec_core.cli", *arguments], capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def plain(embedded_folder) -> str:
    done = specdec(*ARGUMENTS, "--drafter", "none", "--stats")
    assert done.returncode == 0, done.stderr
    assert "acceptance length 1.00" in done.stderr
    return done.stdout


def test_text_goes_to_stdout_and_a_trace_of_each_round_to_stderr(plain: str, tmp_path) -> None:
    reference = tmp_path / "answer.txt"
    reference.write_text(plain.strip())
    traced = specdec(*ARGUMENTS, "--exactness", "bitwise", "--trace", "--stats", "--reference", str(reference))
    assert traced.returncode == 0, traced.stderr
    rounds = [line for line in traced.stderr.splitlines() if "drafted" in line]
    assert any("bonus" in line or "end of text" in line for line in rounds)
    assert all(("recovered" in line) or ("bonus" in line) or ("end of text" in line) for line in rounds)
    untraced = specdec(*ARGUMENTS, "--exactness", "bitwise", "--drafter", "none")
    assert traced.stdout == untraced.stdout


def test_json_is_one_document(embedded_folder) -> None:
    document = json.loads(specdec(*ARGUMENTS, "--json").stdout)
    assert document["stats"]["num_generated_tokens"] == len(document["token_ids"])
    assert document["fingerprint"]["digest"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["generate", "-p", "x", "-m", "./no/such/folder"], "no/such/folder"),
        (["generate", "-p", "x", "--drafter", "sufix"], "did you mean 'suffix'"),
        (["generate", "-p", "x", "--top-p", "0"], "top_p"),
    ],
)
def test_a_mistake_is_one_line_and_exit_2(embedded_folder, arguments: list[str], says: str) -> None:
    done = specdec(*arguments)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_help_is_fast_and_loads_no_model_library() -> None:
    code = "import sys, specdec_core.cli; sys.exit(any(m in sys.modules for m in ('torch', 'transformers')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert "generate" in specdec("--help").stdout
