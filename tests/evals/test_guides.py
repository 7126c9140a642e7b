"""The guides' files, beyond what running the README shows: one task around three agents, and an app that learns."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from loopeng import Attempt, Loop
from loopeng.engines import build_engine
from loopeng.evaluators.trajectory import calls_in
from loopeng.references import import_reference
from loopeng.schema.task import EngineSpec

EXAMPLES = Path(__file__).parents[2] / "evals" / "examples"
AGENTS = {
    "function": 'agent: {python: "price_agent:from_the_list", replayable: true}',
    "graph": 'agent: {python: "react_agent:react", replayable: true}',
    "command": "agent: {command: [sh, agent.sh], replayable: true}",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copied = tmp_path_factory.mktemp("guides") / "own-agent"
    return Path(shutil.copytree(EXAMPLES / "own-agent", copied, ignore=shutil.ignore_patterns(".*", "__pycache__")))


@pytest.fixture(scope="module")
def loop(folder: Path) -> Iterator[Loop]:
    with Loop.open(folder / "loop.db") as opened:
        yield opened


def attempts_of(loop: Loop, folder: Path, name: str) -> list[Attempt]:
    if name == "command" and (missing := [each for each in ("curl", "jq") if shutil.which(each) is None]):
        pytest.skip(f"no {' and no '.join(missing)}")
    result = loop.run(folder / f"{name}.yaml")
    attempts = loop.store.attempts(result.run.id)
    assert result.run.status == "finished" and {each.sample_id for each in attempts} == {"teapot", "mug", "candle"}
    for attempt in attempts:
        assert (attempt.verdict in ("pass", "fail"), attempt.error) == (True, None)
        assert attempt.usage.generated_tokens > 0 and attempt.usage.decode_passes > 0  # of the attempt's own engine
    return attempts


def test_the_task_files_differ_in_the_agent_line_alone() -> None:
    lines = {
        name: (EXAMPLES / "own-agent" / f"{name}.yaml").read_text(encoding="utf-8").splitlines() for name in AGENTS
    }
    others = {name: [line for line in text if line != AGENTS[name]] for name, text in lines.items()}
    assert others["function"] == others["graph"] == others["command"]
    assert {len(lines[name]) - len(others[name]) for name in AGENTS} == {1}


@pytest.mark.usefixtures("embedded_folder")
def test_one_task_around_a_function_a_react_agent_and_a_shell_command(loop: Loop, folder: Path) -> None:
    """On the real model. A function and a command that ask for the same get the same text, retries included."""
    by_function, by_graph = attempts_of(loop, folder, "function"), attempts_of(loop, folder, "graph")
    calls = [call for attempt in by_graph for call in calls_in(attempt.trajectory)]
    assert "price" in {call.name for call in calls}
    prices = {step.get("content") for attempt in by_graph for step in attempt.trajectory}
    assert prices & {"One teapot costs 24.5 euros.", "One mug costs 8.5 euros.", "One candle costs 4.75 euros."}
    by_command = attempts_of(loop, folder, "command")
    said = [
        [(each.sample_id, each.attempt_index, each.text, each.usage.prompt_tokens) for each in attempts]
        for attempts in (by_function, by_command)
    ]
    assert said[0] == said[1]
    assert "fail" in {each.verdict for each in by_function}  # so that retries were among them


def test_the_app_learns_from_what_it_was_asked(tmp_path: Path) -> None:
    """Its model says too much until feedback or a rule forbids it. Inputs have fixed hashes, hence fixed splits."""
    answer = import_reference("app:answer", EXAMPLES)
    products = [f"item{number}" for number in range(24)]
    short = " ".join(products)  # names whatever was asked for
    script = {"replies": [{"when": "at most", "say": short}], "default": f"{short} and more"}
    (tmp_path / "script.json").write_text(json.dumps(script), encoding="utf-8")
    engine = build_engine(EngineSpec(kind="scripted", script="script.json"), tmp_path)
    with Loop.open(tmp_path / "app.db", engine=engine) as loop:
        assert {answer(loop, product) for product in products} == {short}
        (proposal,) = loop.propose("live:describe")
        (card,) = loop.queue()
        assert card.gate is not None and (card.gate.verdict, card.gate.pairs.broken) == ("pass", 0)
        loop.approve(proposal.id, by="ana", seen=card.text_hash)
        assert "at most" in loop.instructions("describe", {"product": "mug"}).text
