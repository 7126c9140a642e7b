"""The bench that compares speculative with plain ids on all of Spec-Bench."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evals.bench import lossless
from evals.bench.checkpoint import read_checkpoint
from specdec_core.drafters import DraftContext
from specdec_core.engine import Engine
from specdec_core.types import Draft
from tests.specdec_core.tiny_models import make_tiny_engine

NUM_QUESTIONS = 3
Run = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def run_bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    questions = [{"question_id": n, "category": "qa", "turns": ["la la la la la"]} for n in range(NUM_QUESTIONS)]
    (tmp_path / "spec_bench.jsonl").write_text("".join(json.dumps(line) + "\n" for line in questions))
    (tmp_path / "humaneval.jsonl").write_text("")
    monkeypatch.setattr(lossless, "RESULTS", tmp_path)
    monkeypatch.setattr("specdec_core.engine.load_engine", lambda model, **options: make_tiny_engine())

    def run(*options: str) -> tuple[int, dict[str, Any]]:
        status = lossless.main(["--data", str(tmp_path), "--max-tokens", "16", *options])
        lines = capsys.readouterr().out.splitlines()
        return status, json.loads(lines[-1]) if lines else {}

    return run


@pytest.mark.usefixtures("one_thread")
def test_all_texts_are_compared_and_counted(run_bench: Run, tmp_path: Path) -> None:
    status, summary = run_bench()
    assert summary["num_equal"] == {"0.0": NUM_QUESTIONS, "0.8": NUM_QUESTIONS}
    assert summary["num_missing"] == 0 and summary["unequal"] == []
    assert status == (0 if summary["num_accepted_tokens"] else 1)
    assert json.loads((tmp_path / "lossless.json").read_text()) == summary
    rows = read_checkpoint(tmp_path / "lossless.jsonl")[1]
    sampled = {tuple(line["plain_ids"]) for line in rows if line["temperature"]}
    assert len(sampled) == NUM_QUESTIONS, "each question has a seed of its own"


@pytest.mark.usefixtures("one_thread")
def test_shards_make_the_whole_and_a_missing_row_is_told(run_bench: Run, tmp_path: Path) -> None:
    assert [run_bench("--shard", f"{which}/2")[1]["num_prompts"] for which in (1, 2)] == [2, 1]
    paths = [tmp_path / f"lossless-{which}-of-2.jsonl" for which in (1, 2)]
    _, summary = run_bench("--report", *map(str, paths))
    assert summary["num_prompts"] == NUM_QUESTIONS and sum(summary["num_equal"].values()) == 2 * NUM_QUESTIONS
    lines = paths[1].read_text().splitlines(keepends=True)
    paths[1].write_text("".join(lines[:-1]))
    status, summary = run_bench("--report", *map(str, paths))
    assert status == 1 and summary["num_missing"] == 1
    assert run_bench("--shard", "2/2")[0] == 2, "the file is there"
    assert run_bench("--shard", "2/2", "--resume")[1]["num_missing"] == 0
    assert paths[1].read_text().count("\n") == len(lines)


def row(plain_ids: list[int], speculative_ids: list[int]) -> dict[str, Any]:
    counts = {"num_accepted_tokens": 1, "num_decode_passes": 1}
    return {"question_id": 7, "temperature": 0.0, "plain_ids": plain_ids, "speculative_ids": speculative_ids, **counts}


@pytest.mark.parametrize(("ids", "where"), [([1, 2], 2), ([1, 5, 3], 1), ([1, 2, 3, 4], 3)])
def test_a_shorter_a_longer_and_another_text_are_unequal(tmp_path: Path, ids: list[int], where: int) -> None:
    settings = {"prompts": [7], "temperatures": [0.0]}
    rows = [row([1, 2, 3], ids)]
    summary = lossless.summarise(rows, settings)
    assert summary["num_equal"] == {"0.0": 0} and summary["unequal"][0]["first_difference"] == where
    assert lossless.report(rows, settings, tmp_path / "out.json") == 1
    assert lossless.report([row([1], [1])], settings, tmp_path / "out.json") == 0
    nothing_drafted = row([1], [1]) | {"num_accepted_tokens": 0}
    assert lossless.report([nothing_drafted], settings, tmp_path / "out.json") == 1


class Intruder:
    """Breaks the promise: it changes what the engine emits."""

    name = "intruder"

    def begin(self, context: DraftContext) -> None:
        pass

    def propose(self, max_tokens: int) -> Draft:
        return Draft((5,) * max_tokens, self.name)

    def observe(self, token_ids: Any) -> None:
        pass

    def end(self) -> None:
        pass


@pytest.mark.usefixtures("one_thread")
def test_an_engine_that_accepts_anything_is_found(run_bench: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def trusting(logits: Any, draft: Draft, *rest: Any) -> Any:
        from specdec_core.verification import Verdict, verify_match

        honest = verify_match(logits, draft, *rest)
        return Verdict((*draft.token_ids, 6), len(draft.token_ids), "bonus") if draft.token_ids else honest

    def load(model: str, **options: Any) -> Engine:
        engine = make_tiny_engine(Intruder())
        prepare = engine._prepare

        def trusting_prepare(request: Any) -> Any:
            generation = prepare(request)
            generation.verify = trusting
            return generation

        engine._prepare = trusting_prepare  # type: ignore[method-assign]
        return engine

    monkeypatch.setattr("specdec_core.engine.load_engine", load)
    status, summary = run_bench("--limit", "1")
    assert status == 1 and len(summary["unequal"]) == 2


def test_shards_are_read() -> None:
    assert lossless.shard("2/3") == (2, 3)
    for text in ("0/2", "3/2", "one"):
        with pytest.raises(ValueError, match=r".+"):
            lossless.shard(text)
