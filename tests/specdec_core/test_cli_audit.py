"""``specdec audit`` and the sampling options, over the tiny engine: words and exit codes, not models."""

from __future__ import annotations

import json
import sys

import pytest

from specdec_core import Engine, engine
from specdec_core.cli import main
from specdec_core.verification import VERIFIERS, Verdict, verify_match
from tests.specdec_core.grammar_tokenizer import GrammarTinyTokenizer
from tests.specdec_core.test_audit import Guess
from tests.specdec_core.tiny_models import make_tiny_engine

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def specdec(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def load_engine(reference: str, *, drafter: str, num_speculative_tokens: int | None, verification: str, **_):
        exactness = "law" if verification == "rejection" else "bitwise"
        made = Guess() if drafter == "auto" else drafter
        return Engine(make_tiny_engine(exactness=exactness).model, drafter=made, verification=verification)

    monkeypatch.setattr(engine, "load_engine", load_engine)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["specdec", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), *capsys.readouterr()

    return run


@pytest.fixture
def lenient(monkeypatch: pytest.MonkeyPatch) -> None:
    def verify(logits, draft, pipeline, generated_ids) -> Verdict:
        if len(generated_ids) == 5 and draft.token_ids:
            return Verdict(draft.token_ids[:1], 1, "bonus")
        return verify_match(logits, draft, pipeline, generated_ids)

    monkeypatch.setitem(VERIFIERS, "match", verify)


def test_equal_texts_exit_0_and_every_prompt_has_a_line(specdec, tmp_path) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('"a \\"JSON\\" line"\n\nplain text\n', encoding="utf-8")
    code, out, error = specdec("audit", "-p", "one", "--file", str(prompts), "--max-tokens", "9", "--temperature", "1")
    assert code == 0, error
    assert [line.split()[0] for line in out.splitlines()] == ["equal"] * 3
    assert "9 tokens" in out and 'a "JSON" line' in out
    assert "3 of 3 texts are equal" in error


def test_a_difference_exits_1_and_says_where(specdec, lenient) -> None:
    code, out, _ = specdec("audit", "-p", "one", "--max-tokens", "12")
    assert code == 1
    assert out.startswith("different") and "from token 5" in out and "margin" in out
    code, out, _ = specdec("audit", "-p", "one", "-p", "two", "--max-tokens", "12", "--json")
    document = json.loads(out)
    assert (code, document["num_texts"], document["num_different"]) == (1, 2, 2)
    divergence = document["texts"][1]["divergence"]
    assert divergence["index"] == 5 and divergence["speculative_text"] == chr(70) and divergence["margin"] > 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["audit"], "no prompt to audit"),
        (["audit", "-p", "x", "--verification", "rejection"], "audit with match"),
        (["generate", "-p", "x", "--logit-bias", "5"], "--logit-bias: '5' is not ID=VALUE"),
        (["generate", "-p", "x", "--logit-bias", "x=5"], "--logit-bias: 'x=5' is not ID=VALUE"),
        (["generate", "-p", "x", "--logit-bias", "5=500"], "--logit-bias: "),
        (["generate", "-p", "x", "--presence-penalty", "3"], "--presence-penalty: "),
        (["generate", "-p", "x", "--logit-bias", "97=1"], "outside 0..96"),
    ],
)
def test_a_mistake_is_one_line_and_exit_2(specdec, arguments: list[str], says: str) -> None:
    code, _, error = specdec(*arguments)
    assert code == 2
    assert says in error and len(error.strip().splitlines()) == 1


def test_texts_of_a_form_are_compared_too(specdec, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = GrammarTinyTokenizer()
    monkeypatch.setattr("tests.specdec_core.tiny_models.TinyTokenizer", lambda: tokenizer)
    code, out, error = specdec("audit", "-p", "x", "--regex", "ab{8}c", "--json")
    assert code == 0, error
    text = json.loads(out)["texts"][0]
    assert (text["num_plain_tokens"], text["speculative_decode_passes"] < text["plain_decode_passes"]) == (10, True)


def test_a_broken_line_of_the_file_is_named(specdec, tmp_path) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('fine\n"not closed\n', encoding="utf-8")
    code, _, error = specdec("audit", "--file", str(prompts))
    assert code == 2 and "line 2" in error


def test_every_sampling_option_reaches_the_request(specdec) -> None:
    options = ["--temperature", "1", "--min-p", "0.02", "--presence-penalty", "0.5", "--frequency-penalty", "0.5"]
    options += ["--logit-bias", "40=3", "--logit-bias", "41=-2.5", "--logprobs", "2"]
    free = json.loads(specdec("generate", "-p", "x", "--max-tokens", "20", "--json", *options)[1])["text"]
    word = next(char for char in free if char.isalpha())
    options += ["--bad-words", word]
    code, out, error = specdec("generate", "-p", "x", "--max-tokens", "20", "--json", *options)
    assert code == 0, error
    document = json.loads(out)
    assert word not in document["text"]
    assert [each["token_id"] for each in document["logprobs"]] == document["token_ids"]
    assert all(len(each["top"]) == 2 for each in document["logprobs"])
    for left_out in range(0, len(options), 2):
        fewer = options[:left_out] + options[left_out + 2 :]
        changed = json.loads(specdec("generate", "-p", "x", "--max-tokens", "20", "--json", *fewer)[1])
        compared = ("text", "logprobs")
        assert any(changed[key] != document[key] for key in compared), options[left_out]


def test_verification_is_an_option_and_is_told(specdec) -> None:
    code, out, _ = specdec("generate", "-p", "x", "--max-tokens", "3", "--json", "--verification", "rejection")
    assert code == 0 and json.loads(out)["fingerprint"]["verification"] == "rejection"
