"""``loopeng check``: what it tries, what it foresees, and how it exits."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.loopeng.cli.conftest import Invoke, Shop

SHORT = "{id: short, type: length, max_words: 10}"
YES_NO = """\
version: 1
name: yes-no
prompt: {name: ask, template: "Is {{ thing }} alive?{{ rules }}"}
dataset:
  target: answer
  samples:
    - {thing: a cat, answer: yes it is, split: reflect}
    - {thing: a dog, answer: yes it is, split: reflect}
    - {thing: a cow, answer: yes it is, split: gate}
    - {thing: a stone, answer: no, split: gate, colour: grey}
  split: split
engine: {kind: scripted, script: script.yaml}
evaluators:
  - {id: right, type: contains, value: "{{ target }}"}
  - {id: long, type: length, min_words: 2}
"""
IFEVAL = """\
dataset: {path: rows.jsonl}
engine: {kind: scripted, script: script.yaml}
evaluators: [{id: form, type: ifeval}]
"""


def checked(invoke: Invoke, *arguments: str, code: int = 0) -> dict[str, Any]:
    return dict(json.loads(invoke("check", "--json", *arguments, code=code).stdout))


def with_self_tests(shop: Shop, *tests: str) -> None:
    lines = "".join(f"\n      - {test}" for test in tests)
    shop.change(f"  - {SHORT}", f"  - id: short\n    type: length\n    max_words: 10\n    self_tests:{lines}")


@pytest.fixture
def yes_no(shop: Shop) -> Shop:
    shop.write("task.yaml", YES_NO.replace("yes it is", '"yes it is"').replace("answer: no", 'answer: "no"'))
    return shop


def test_self_tests_that_pass(shop: Shop, invoke: Invoke) -> None:
    long = " ".join(["word"] * 11)
    with_self_tests(
        shop,
        '{answer: "A lamp.", expect: pass}',
        f'{{answer: "{long}", expect: fail}}',
        f'{{answer: "{long}", expect: length.too_long}}',
    )
    assert "self-tests of evaluators: 3 of 3 passed" in invoke("check").stdout
    assert [each["found"] for each in checked(invoke)["self_tests"]] == ["pass", "length.too_long", "length.too_long"]


@pytest.mark.parametrize(
    ("test", "told"),
    [
        ('{answer: "A lamp.", expect: fail}', "expects fail and finds pass"),
        ('{answer: "A lamp.", expect: length.too_long}', "expects length.too_long and finds pass"),
        ('{answer: "A lamp.", expect: too_long}', "expect is one of: pass, fail, length.too_long"),
        ('{answer: "A lamp.", expect: pass, sample: nowhere}', "there is no sample 'nowhere'"),
    ],
)
def test_a_self_test_that_fails_is_a_problem(shop: Shop, invoke: Invoke, test: str, told: str) -> None:
    with_self_tests(shop, '{answer: "A lamp.", expect: pass}', test)
    text = invoke("check", code=2).stdout
    assert "self-tests of evaluators: 1 of 2 passed" in text
    assert "problem: self-test 2 of evaluator 'short'" in text and told in text


def test_a_self_test_names_its_sample_or_brings_inputs_and_target(yes_no: Shop, invoke: Invoke) -> None:
    yes_no.change(
        '  - {id: right, type: contains, value: "{{ target }}"}',
        """\
  - id: right
    type: contains
    value: "{{ target }} {{ thing }}"
    self_tests:
      - {answer: "yes it is a cat", expect: pass}
      - {answer: "well, maybe a mouse", target: maybe, inputs: {thing: a mouse}, expect: pass}
      - {answer: "yes it is a cat", target: maybe, expect: contains.missing}""",
    )
    assert "3 of 3 passed" in invoke("check").stdout


def test_self_tests_change_neither_the_task_nor_its_runs(ran: Shop, invoke: Invoke) -> None:
    """A resumed run, a proposal and a gate belong to a task by its hash."""
    from loopeng.task_file import load_task

    before = load_task(ran.folder).version_hash
    with_self_tests(ran, '{answer: "A lamp.", expect: pass}')
    assert load_task(ran.folder).version_hash == before
    ran.change("max_words: 10", "max_words: 9")
    assert load_task(ran.folder).version_hash != before


def test_a_mistake_in_a_self_test_is_told_with_its_line(shop: Shop, invoke: Invoke) -> None:
    with_self_tests(shop, '{answer: "A lamp.", expect: pass, samples: p-00}')
    told = invoke("check", code=2).stderr
    assert "task.yaml:15" in told and "unknown key 'samples'" in told and "did you mean 'sample'" in told


def test_do_nothing_answers_evaluator_by_evaluator(shop: Shop, invoke: Invoke) -> None:
    shop.change("max_words: 10}", "min_words: 4}")
    document = checked(invoke)
    empty, echo, constant = document["baselines"]
    assert empty["by_evaluator"] == {"one-sentence": 15, "short": 0} and empty["score"] == 0.5
    assert echo["by_evaluator"] == constant["by_evaluator"] == {"one-sentence": 15, "short": 15}
    assert [len(each["passed"]) for each in document["baselines"]] == [0, 15, 15]
    text = invoke("check").stdout
    assert "one-sentence               15                 15                15" in text
    assert "warning: the prompt itself passes 15 of the 15 samples, p-00 among them" in text
    assert "an empty answer passes" not in text


def test_strict_exits_2_for_a_warning_and_prints_the_same(shop: Shop, invoke: Invoke) -> None:
    assert invoke("check", "--strict", code=2).stdout == invoke("check").stdout
    document = checked(invoke)
    assert document["num_warnings"] == sum(each["kind"] == "warning" for each in document["remarks"]) > 0
    shop.write("products.jsonl", "".join(json.dumps(row) + "\n" for row in rows_for_a_calm_task()))
    shop.change("max: 1}", "max: 1}\n  - {id: names-it, type: contains, value: '{{ product }} of old'}")
    invoke("check", "--strict")


def rows_for_a_calm_task() -> list[dict[str, str]]:
    splits = [*["reflect"] * 8, *["gate"] * 20, "holdout"]
    return [{"id": f"p-{place}", "product": f"lamp {place}", "split": split} for place, split in enumerate(splits)]


def test_the_most_frequent_target_is_the_constant_and_targets_are_tried(yes_no: Shop, invoke: Invoke) -> None:
    text = invoke("check").stdout
    assert "note: always 'yes it is' passes 3 of the 4 samples, without a look at the input" in text
    assert "note: the target as the answer fails 'long' on 1 of 4 tried" in text
    document = checked(invoke)
    assert [each["num_tried"] for each in document["targets"]] == [4, 4]
    assert document["targets"][0]["failed"] == [] and len(document["targets"][1]["failed"]) == 1


def test_fields_that_nobody_uses_or_that_are_empty_are_named(yes_no: Shop, invoke: Invoke) -> None:
    text = invoke("check").stdout
    assert "note: the field 'colour' is missing in 3 of 4 samples: " in text
    assert "note: neither the template nor a key of an evaluator uses the fields 'colour'" in text
    yes_no.change("thing: a cow", 'thing: " "')
    assert "warning: the template's field 'thing' is empty in 1 sample (" in invoke("check").stdout


@pytest.mark.parametrize(
    "reader",
    [
        "{id: sense, type: llm_judge, criteria: It is true., engine: {kind: scripted, script: script.yaml}}",
        "{id: both, type: composite, evaluators: [{id: sense, type: llm_judge, criteria: It is true.}]}",
    ],
)
def test_a_judge_that_is_shown_all_inputs_uses_all_fields(yes_no: Shop, invoke: Invoke, reader: str) -> None:
    yes_no.change("  - {id: long, type: length, min_words: 2}", f"  - {reader}")
    assert "uses the fields" not in invoke("check").stdout
    if "composite" not in reader:
        yes_no.change("criteria: It is true.,", "criteria: It is true., inputs: [thing],")
        assert "uses the fields 'colour'" in invoke("check").stdout


def test_ifeval_finds_its_fields_by_their_names(yes_no: Shop, invoke: Invoke) -> None:
    rows = {"thing": "a cat", "instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}], "colour": "grey"}
    yes_no.write("task.yaml", YES_NO[: YES_NO.index("dataset:")] + IFEVAL)
    yes_no.write("rows.jsonl", "".join(json.dumps(rows | {"thing": f"cat {number}"}) + "\n" for number in range(9)))
    assert checked(invoke)["fields"]["unused"] == ["colour"]


def test_a_field_that_the_template_needs_and_some_samples_lack(shop: Shop, invoke: Invoke) -> None:
    rows = [json.loads(line) for line in (shop.folder / "products.jsonl").read_text().splitlines()]
    for row in rows[3:6]:
        del row["product"]
    shop.write("products.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    told = invoke("check", code=2).stderr
    assert "products.jsonl:4: the sample has no field 'product'" in told and "(3 of 15 samples lack it)" in told


def test_an_evaluator_that_breaks_is_told_with_its_error(shop: Shop, invoke: Invoke) -> None:
    shop.write("mine.py", "def strange(text):\n    return 1 / len(text) > 0\n")
    shop.change(SHORT, '{id: short, type: python, function: "mine:strange"}')
    text = invoke("check").stdout
    assert "warning: evaluator 'short' cannot judge 15 samples (p-00, p-01, p-02 ...)" in text
    assert "ZeroDivisionError: division by zero" in text


def test_an_evaluator_that_can_judge_nothing_is_a_problem(shop: Shop, invoke: Invoke) -> None:
    """As where answers would have to run, and there is no sandbox: a run would be in error from end to end."""
    shop.write("cannot_judge.py", "def strange(text):\n    raise OSError('nowhere to run it')\n")
    shop.change(SHORT, '{id: short, type: python, function: "cannot_judge:strange"}')
    text = invoke("check", code=2).stdout
    assert "problem: evaluator 'short' could judge nothing, so every sample of a run would be in error: " in text
    assert "OSError: nowhere to run it" in text


def test_the_power_at_several_base_rates_before_the_first_run(shop: Shop, invoke: Invoke) -> None:
    shop.write("products.jsonl", "".join(json.dumps(row) + "\n" for row in rows_for_a_calm_task()))
    gate = checked(invoke)["gate"]
    assert (gate["num_samples"], gate["look"], gate["alpha"], gate["base_rate_from"]) == (20, 1, 0.025, None)
    powers = [each["power"] for each in gate["powers"]]
    assert powers == sorted(powers, reverse=True) and powers[0] > 0.9 > powers[-1]
    assert gate["powers"][0]["samples_needed"] == 15
    assert not shop.db.parent.exists()


def test_nothing_is_said_of_a_gate_where_improvement_is_off(shop: Shop, invoke: Invoke) -> None:
    shop.change("run: {", "improve: {enabled: false}\nrun: {")
    document = checked(invoke)
    assert document["gate"] is None
    assert not any("gate" in each["text"] for each in document["remarks"])


def test_the_last_run_gives_base_rate_cost_and_the_next_look(ran: Shop, invoke: Invoke) -> None:
    from loopeng.store import LoopStore

    before = {path: path.read_bytes() for path in ran.db.parent.iterdir()}
    document = checked(invoke)
    with LoopStore.open(ran.db) as store:
        (run,) = store.runs(kind="suite")
    assert document["last_run"]["run_id"] == document["gate"]["base_rate_from"] == run.id
    assert document["last_run"]["gate_rate"] == 0.0 and document["gate"]["look"] == 2
    assert [each["base_rate"] for each in document["gate"]["powers"]] == [0.0]
    expected = document["cost"]["expected"]
    assert expected["attempts"] == pytest.approx(25) and expected["generated_tokens"] > 0
    text = invoke("check").stdout
    assert f"as {run.id} went: 25 attempts, " in text
    assert "5 gate samples give a power of 0 % where 0 % pass now" in text
    assert {path: path.read_bytes() for path in ran.db.parent.iterdir()} == before


def test_the_power_is_told_by_the_runs_that_a_gate_would_look_at(ran: Shop, invoke: Invoke) -> None:
    """A run of three samples is newer, and of no gate sample; a new template has no run at all."""
    from loopeng.store import LoopStore

    invoke("run", "--limit", "3", "--no-improve", code=3)
    document = checked(invoke)
    with LoopStore.open(ran.db) as store:
        newest, first = store.runs(kind="suite")
    assert document["last_run"]["run_id"] == newest.id
    assert document["gate"]["base_rate_from"] == first.id
    assert [each["base_rate"] for each in document["gate"]["powers"]] == [0.0]
    ran.change("Describe this product:", "Say something about")
    assert checked(invoke)["gate"]["base_rate_from"] is None


def test_a_database_of_an_older_schema_is_left_as_it_is(ran: Shop, invoke: Invoke) -> None:
    import sqlite3

    with sqlite3.connect(ran.db) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0001'")
    connection.close()
    assert checked(invoke)["last_run"] is None
    with sqlite3.connect(ran.db) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchone() == ("0001",)
    connection.close()


def test_a_file_that_is_no_database_is_a_warning(shop: Shop, invoke: Invoke) -> None:
    shop.write("other.db", "not a database at all, but a text of some length" * 30)
    assert "is not a loopeng database" in invoke("check", "--db", "other.db").stdout


def test_repeats_are_no_further_occurrences_of_a_failure(shop: Shop, invoke: Invoke) -> None:
    """Five reflect samples show a pattern five times at most, however often each of them is tried."""
    shop.change("run: {", "improve: {min_occurrences: 6}\nrun: {repeats: 3, ")
    told = "note: one run shows a pattern at most 5 times; 6 occurrences need several runs"
    assert told in invoke("check").stdout


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ("attempts: 14", "warning: limits.attempts (14) stops the run: it needs at least 15"),
        ("attempts: 29", "note: limits.attempts (29) may stop the run: it may need up to 30"),
        ("total_tokens: 50", "warning: limits.total_tokens (50) stops the run: it needs at least 105"),
        ("total_tokens: 7000", "note: limits.total_tokens (7,000) may stop the run: it may need up to 7,890"),
    ],
)
def test_limits_that_would_stop_a_run(shop: Shop, invoke: Invoke, limits: str, told: str) -> None:
    shop.change("run: {", f"limits: {{{limits}}}\nrun: {{")
    assert told in invoke("check").stdout


def test_a_limit_that_the_last_run_would_have_reached(ran: Shop, invoke: Invoke) -> None:
    ran.change("run: {", "limits: {attempts: 20}\nrun: {")
    text = invoke("check").stdout
    assert "warning: limits.attempts (20) stops the run: it needs about 25 by the last run's averages" in text


@pytest.mark.skipif(os.name != "posix", reason="modes of files")
def test_nothing_is_written_beside_the_task(shop: Shop, invoke: Invoke) -> None:
    before = sorted(Path().rglob("*"))
    invoke("check")
    assert sorted(Path().rglob("*")) == before
