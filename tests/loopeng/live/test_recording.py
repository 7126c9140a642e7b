"""What becomes of an application's calls: samples, repeats, one run a day."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loopeng import AgentResult, LiveSettings, Loop
from loopeng.attempt.seeds import attempt_seed
from loopeng.dataset import Row, make_samples
from loopeng.errors import NotFoundError, UsageError
from loopeng.live import live_sample
from loopeng.live.redaction import Redactor
from loopeng.schema import Usage
from loopeng.schema.task import DatasetSpec
from tests.loopeng.live.traffic import LONG, SHORT, SPECS, TEMPLATE, ask, num_calls, open_loop, rows

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def test_an_input_is_a_sample_and_each_call_its_own_repeat(loop: Loop, path: Path) -> None:
    results = [ask(loop, product) for product in ("mug", "cup", "mug", "mug")]
    assert [result.text for result in results] == [SHORT] * 4
    (run,) = loop.store.runs(kind="live")
    assert (run.task_name, run.status, run.prompt_version_id) == ("live:describe", "finished", results[0].version.id)
    ends = loop.store.sample_results(run.id)
    mug = results[0].attempts[0].sample_id
    assert [end.repeat for end in ends if end.sample_id == mug] == [0, 1, 2]
    assert {(end.first_verdict, end.verdict, end.num_attempts) for end in ends} == {("fail", "pass", 2)}
    assert [attempt.text for attempt in loop.store.attempts(run.id, mug, 2)] == [LONG, SHORT]
    assert loop.store.attempts(run.id, mug, 2) == list(results[3].attempts)
    samples = {sample.id: sample.inputs for sample in loop.store.live_samples("describe")}
    assert samples[mug] == {"product": "mug"} and len(samples) == 2


def test_a_sample_has_the_id_and_split_that_a_dataset_would_give_it() -> None:
    """The same input in a suite and in traffic is in one split, so that nothing learned from it is tested on it."""
    inputs = [{"product": f"mug {number}", "size": number} for number in range(200)]
    in_a_dataset = make_samples([Row(each) for each in inputs], DatasetSpec(path="x.jsonl"))
    in_traffic = [live_sample(each, Redactor()) for each in inputs]
    assert [(each.id, each.split) for each in in_traffic] == [(each.id, each.split) for each in in_a_dataset]
    assert {each.split for each in in_traffic} == {"reflect", "gate", "holdout"}


def test_seeds_are_those_of_any_attempt(loop: Loop) -> None:
    for result in (ask(loop, seed=7), ask(loop, seed=7)):
        for attempt in result.attempts:
            assert attempt.seed == attempt_seed(7, attempt.sample_id, attempt.attempt_index, attempt.repeat)


def test_calls_share_a_run_while_nothing_that_decides_them_changes(loop: Loop) -> None:
    for _ in range(3):
        ask(loop)
    ask(loop, seed=1)
    ask(loop, max_attempts=1)
    ask(loop, engine={"max_tokens": 9})
    ask(loop, evaluators=[{"id": "short", "type": "length", "max_words": 6}])
    loop.store.adopt_template("describe", "Say what it is: {{ product }}{{ rules }}", by="file")
    assert ask(loop).version.number == 2
    assert len(loop.store.runs(kind="live")) == 6


def test_many_threads_make_distinct_repeats(loop: Loop, path: Path) -> None:
    ask(loop, "first")  # the template is adopted
    with ThreadPoolExecutor(16) as pool:
        results = list(pool.map(lambda number: ask(loop, f"thing {number % 3}", max_attempts=1), range(30)))
    keys = {(each.attempts[0].sample_id, each.attempts[0].repeat) for each in results}
    assert len(keys) == 30
    for sample_id in {sample_id for sample_id, _ in keys}:
        assert {repeat for each, repeat in keys if each == sample_id} == set(range(10))
    assert num_calls(path) == 31


def test_two_processes_answer_on_one_database(path: Path) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from tests.loopeng.live.traffic import ask, open_loop\n"
        "with open_loop(Path(sys.argv[1])) as loop:\n"
        "    results = [ask(loop, 'mug', max_attempts=1) for _ in range(15)]\n"
        "print([each.attempts[0].repeat for each in results])"
    )
    command = [sys.executable, "-c", program, str(path)]
    root = Path(__file__).parents[3]
    children = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) for _ in range(2)]
    repeats = [json.loads(child.communicate(timeout=60)[0]) for child in children]
    assert sorted(repeats[0] + repeats[1]) == list(range(30))
    assert len(rows(path, "SELECT id FROM run")) == 1  # though neither asked the other
    assert len(rows(path, "SELECT id FROM prompt_version")) == 1


def test_an_event_loop_is_never_blocked(path: Path) -> None:
    ticks: list[float] = []

    async def generate(messages: Any, params: Mapping[str, Any]) -> str:
        await asyncio.sleep(0.1)
        return SHORT

    async def tick() -> None:
        while True:
            ticks.append(time.monotonic())
            await asyncio.sleep(0.005)

    async def program() -> list[Any]:
        ticking = asyncio.create_task(tick())
        with Loop.open(path, engine=generate) as loop:
            calls = (
                loop.aattempt("describe", {"product": f"mug {number % 5}"}, evaluators=SPECS, template=TEMPLATE)
                for number in range(50)
            )
            results = await asyncio.gather(*calls)
            await loop.aobserve("describe", {"product": "cup"}, SHORT, evaluators=SPECS)
        ticking.cancel()
        return results

    results = asyncio.run(program())
    assert len({(each.attempts[0].sample_id, each.attempts[0].repeat) for each in results}) == 50
    assert num_calls(path) == 51
    assert len(ticks) > 10  # it went on while threads worked


def test_traffic_that_the_app_answers_by_itself(loop: Loop, path: Path) -> None:
    filled = loop.instructions("describe", {"product": "mug"}, template=TEMPLATE)
    assert filled.text == "Describe mug"
    bad = loop.observe("describe", {"product": "mug"}, LONG, evaluators=SPECS, version=filled.version)
    assert (bad.text, bad.passed, len(bad.attempts)) == (LONG, False, 1)
    spent = AgentResult(text=SHORT, trajectory=[{"tool": "search"}], usage=Usage(prompt_tokens=3, generated_tokens=4))
    good = loop.observe("describe", {"product": "mug"}, spent, evaluators=SPECS)
    assert (good.passed, good.version.id) == (True, filled.version.id)
    (run,) = loop.store.runs(kind="live")
    first, second = loop.store.attempts(run.id)
    assert (first.text, first.repeat, second.repeat, second.usage.generated_tokens) == (LONG, 0, 1, 4)
    assert second.trajectory == [{"tool": "search"}]
    assert run.engine["kind"] == "application" and run.engine["reference"] is None
    with pytest.raises(UsageError, match="output is the answer's text"):
        loop.observe("describe", {"product": "mug"}, 7, evaluators=SPECS)  # type: ignore[arg-type]
    loop.store.adopt_template("other", "{{ x }}", by="test")
    with pytest.raises(UsageError, match="not of 'other'"):
        loop.observe("other", {"x": 1}, "y", evaluators=SPECS, version=filled.version)
    with pytest.raises(NotFoundError):
        loop.observe("nothing", {}, "y", evaluators=SPECS)


def test_only_some_calls_are_recorded_and_all_are_answered(path: Path) -> None:
    with open_loop(path, sample_rate=0.5) as loop:
        assert {ask(loop, f"mug {number}", max_attempts=1).text for number in range(64)} == {LONG}
    assert 10 < num_calls(path) < 54  # 32 give or take 5.5 standard deviations
    with open_loop(path, record=False) as loop:
        assert ask(loop, "never seen").passed
    assert not [row for row in rows(path, "SELECT inputs FROM live_sample") if "never seen" in row[0]]


def test_recording_off_in_the_environment(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPENG_LIVE_RECORD", "false")
    with open_loop(path) as loop:
        ask(loop)
    assert num_calls(path) == 0
    assert LiveSettings(record=True).record


def test_engine_settings_of_a_call(path: Path) -> None:
    seen: list[Mapping[str, Any]] = []

    def generate(messages: Any, params: Mapping[str, Any]) -> str:
        seen.append(params)
        return SHORT

    with Loop.open(path, engine=generate) as loop:
        ask(loop, engine={"max_tokens": 9, "temperature": 0.5, "stop": ["."]})
        assert (seen[0]["max_tokens"], seen[0]["temperature"], seen[0]["stop"]) == (9, 0.5, (".",))
        for wrong, says in (
            ({"model": "x"}, "Loop.open was given one"),
            ({"max_tokns": 9}, "did you mean 'max_tokens'"),
            ("fast", "engine is a mapping"),
        ):
            with pytest.raises(UsageError, match=says):
                ask(loop, engine=wrong)


def test_a_model_is_made_once_for_all_calls(tmp_path: Path, path: Path) -> None:
    (tmp_path / "script.yaml").write_text(f"default: {SHORT}")
    settings = {"kind": "scripted", "script": str(tmp_path / "script.yaml")}
    with Loop.open(path) as loop:
        assert ask(loop, engine=settings).passed
        (tmp_path / "script.yaml").unlink()  # it could not be made again
        assert ask(loop, engine=settings | {"max_tokens": 5}).passed
        (newest, _) = loop.store.runs(kind="live")
        assert loop.store.task(newest.task_hash).engine.max_tokens == 5


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(inputs=st.dictionaries(st.text(), _VALUES, max_size=3))
def test_any_input_is_answered_and_stored_as_what_its_id_says(loop: Loop, inputs: dict[str, Any]) -> None:
    """Odd values become text, half characters are mended: nothing that can be answered cannot be recorded."""
    inputs = {name: value for name, value in inputs.items() if name not in ("rules", "product")} | {"product": "mug"}
    result = loop.attempt("describe", inputs, evaluators=SPECS, template=TEMPLATE, max_attempts=1)
    stored = {sample.id: sample for sample in loop.store.live_samples("describe")}[result.attempts[0].sample_id]
    assert live_sample(stored.inputs, Redactor()) == stored
