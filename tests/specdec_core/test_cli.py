"""The command line: in this process where only words matter, in one of its own where the process does."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from specdec_core.cli import main

ARGUMENTS = ["generate", "-p", "Name three fruits.", "--max-tokens", "12"]
BITWISE = [*ARGUMENTS, "--exactness", "bitwise"]


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


class Specdec:
    """Runs ``main`` as the console script does."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys, self._monkeypatch = capsys, monkeypatch

    def __call__(self, *arguments: str) -> Done:
        self._monkeypatch.setattr(sys, "argv", ["specdec", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        out, error = self._capsys.readouterr()
        return Done(int(ended.value.code or 0), out, error)


@pytest.fixture
def specdec(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Specdec:
    return Specdec(capsys, monkeypatch)


def test_text_goes_to_stdout_and_a_trace_of_each_round_to_stderr(embedded_folder, specdec: Specdec, tmp_path) -> None:
    plain = specdec(*BITWISE, "--drafter", "none", "--stats")
    assert plain.returncode == 0, plain.stderr
    assert "acceptance length 1.00" in plain.stderr
    reference = tmp_path / "answer.txt"
    reference.write_bytes(plain.stdout.strip().encode() + b"\xff not UTF-8")  # a reference can do no harm
    traced = specdec(*BITWISE, "--trace", "--reference", str(reference))
    assert traced.returncode == 0, traced.stderr
    rounds = [line for line in traced.stderr.splitlines() if "drafted" in line]
    assert any("bonus" in line or "end of text" in line for line in rounds)
    assert all(("recovered" in line) or ("bonus" in line) or ("end of text" in line) for line in rounds)
    assert traced.stdout == plain.stdout


def test_json_is_one_document_and_a_dash_reads_standard_input(embedded_folder) -> None:
    arguments = ["generate", "-p", "-", "--max-tokens", "3", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "specdec_core.cli", *arguments],
        input="Name three fruits.",
        capture_output=True,
        text=True,
        check=True,
    )
    document = json.loads(done.stdout)
    assert document["stats"]["num_generated_tokens"] == len(document["token_ids"])
    assert document["fingerprint"]["digest"]
    assert document["num_prompt_tokens"] > 5


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["generate", "-p", "x", "-m", "./no/such/folder"], "no/such/folder"),
        (["generate", "-p", "x", "--drafter", "sufix"], "did you mean 'suffix'"),
        (["generate", "-p", "x", "--top-p", "0"], "--top-p: Input should be greater than 0 (given: '0.0')"),
        (["generate", "-p", "x", "--exactness", "roughly"], "'roughly'"),
        (["generate", "-p", "x", "--json-schema", "no-such-file.json"], "no-such-file.json"),
        (["generate", "-p", "x", "--json-schema", "{no JSON"], "--json-schema: not JSON: Expecting property name"),
        (["generate", "-p", "x", "--json-schema", "{}", "--regex", "a"], "--json-schema and --regex"),
        (["generate", "-p", "x", "--logprobs", "2"], "add --json"),
        (["describe", "--context-length", "100000"], "context_length must be within 2..8192"),
    ],
)
def test_a_mistake_is_one_line_and_exit_2(specdec: Specdec, arguments: list[str], says: str) -> None:
    done = specdec(*arguments)
    assert done.returncode == 2
    assert says in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_text_has_the_form_of_a_schema_or_a_regular_expression(embedded_folder, specdec: Specdec, tmp_path) -> None:
    schema = '{"type": "array", "items": {"enum": ["red", "green"]}, "minItems": 1, "maxItems": 2}'
    (tmp_path / "colours.json").write_text(schema, encoding="utf-8")
    law = [*ARGUMENTS, "--exactness", "law"]
    texts = [specdec(*law, "--json-schema", given).stdout for given in (schema, str(tmp_path / "colours.json"))]
    assert texts[0] == texts[1]
    assert set(json.loads(texts[0])) <= {"red", "green"}
    assert specdec(*law, "--regex", "(pear|fig)s").stdout.strip() in ("pears", "figs")
    refused = specdec(*law, "--regex", "(pear")
    assert refused.returncode == 2 and "regex: at character 1: unclosed group" in refused.stderr


def test_input_that_is_no_text_is_one_line_and_exit_2(
    embedded_folder, specdec: Specdec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes that are not UTF-8 arrive as half surrogate pairs, and the tokenizer answered with a traceback."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff\xfe"), "utf-8", errors="surrogateescape"))
    done = specdec("generate", "-p", "-", "--exactness", "law")
    assert done.returncode == 2
    assert "not valid Unicode" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_one_line_and_exit_1(embedded_folder) -> None:
    """Python flushes at exit what a buffer still holds: that failed again, and the status was 120."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "specdec_core.cli", *ARGUMENTS, "--exactness", "law"],
            env=os.environ | {"PYTHONUNBUFFERED": ""},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1 and "No space left" in done.stderr


def test_help_is_fast_and_loads_no_model_library(specdec: Specdec) -> None:
    code = "import sys, specdec_core.cli; sys.exit(any(m in sys.modules for m in ('torch', 'transformers')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert "generate" in specdec("--help").stdout


QUICK = ["profile", "--repeats", "1", "--cached-tokens", "8", "--exactness", "bitwise", "--width", "4"]


def test_a_profile_is_a_text_or_one_line_of_json(embedded_folder, specdec: Specdec) -> None:
    text = specdec(*QUICK)
    assert text.returncode == 0, text.stderr
    assert text.stderr == ""  # progress is for a terminal
    assert "self-test passed" in text.stdout and "T(rows)" in text.stdout
    as_json = specdec(*QUICK, "--json", "--draft-cost", "0.5")
    document = json.loads(as_json.stdout.splitlines()[-1])
    assert len(as_json.stdout.splitlines()) == 1
    assert document["conditions"]["model"] == "smollm2-135m"
    assert document["conditions"]["draft_cost"] == 0.5
    assert document["passes"][-1]["num_rows"] == 4
    assert 0.95 < document["passes"][0]["weights_share"] < 1


def test_a_profile_draws_a_picture_and_tells_a_terminal_how_far_it_is(
    embedded_folder, specdec: Specdec, tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "passes.png"
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    done = specdec(*QUICK, "--png", str(path))
    assert done.returncode == 0, done.stderr
    clear = "\r\x1b[2K"
    assert f"{clear}loading smollm2-135m{clear}" in done.stderr
    assert f"{clear}decode passes, 0 of 1 rounds{clear}" in done.stderr
    assert done.stderr.endswith(clear)
    assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_a_profile_that_cannot_be_is_one_line_and_exit_2(embedded_folder, specdec: Specdec, tmp_path) -> None:
    for arguments, says in (
        (["--png", str(tmp_path / "missing" / "x.png")], "missing"),
        (["--cached-tokens", "999999"], "context"),
    ):
        done = specdec(*QUICK, *arguments)
        assert done.returncode == 2
        assert says in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
