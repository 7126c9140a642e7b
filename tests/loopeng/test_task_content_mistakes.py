"""Mistakes in what a task file names: evaluators, template and data."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.loopeng.task_texts import DATA, GOOD, Broken, check_mistake

BROKEN = [
    # evaluators
    Broken(
        "evaluator type",
        "type: sentences",
        "type: sentence",
        "id: one",
        "unknown evaluator type 'sentence'",
        "'sentences'",
    ),
    Broken(
        "evaluator key",
        "max_words: 25",
        "max_word: 25",
        "max_word: 25",
        "evaluator 'short': unknown key 'max_word'",
        "'max_words'",
    ),
    Broken(
        "evaluator value",
        "max_words: 25",
        "max_words: lots",
        "max_words",
        "evaluator 'short': max_words must be a whole number",
    ),
    Broken("evaluator without limit", ", max: 1", "", "id: one", "evaluator 'one': give 'min', 'max' or both"),
    Broken("evaluator id twice", "id: one,", "id: short,", "id: short\n", "two evaluators have the id 'short'"),
    Broken("evaluator id odd", "id: one,", 'id: "o n e",', "o n e", "may hold only letters"),
    Broken(
        "bad pattern", "type: sentences, max: 1", 'type: regex, pattern: "("', "id: one", "not a regular expression"
    ),
    Broken(
        "python evaluator",
        "type: sentences, max: 1",
        'type: python, function: "json:lods"',
        "id: one",
        "has no 'lods'",
        "'loads'",
    ),
    Broken(
        "python evaluator inputs",
        "type: sentences, max: 1",
        'type: python, function: "operator:truth", args: {x: 1}',
        "id: one",
        "cannot be called",
    ),
    Broken(
        "evaluator placeholder",
        'value: "{{ product }}"',
        'value: "{{ produt }}"',
        "names-it",
        "no sample has that field (see",
        "'product'",
    ),
    Broken("evaluator template", 'value: "{{ product }}"', 'value: "{{ product"', "names-it", "cannot be read"),
    # template
    Broken(
        "template syntax", "{{ product }}", "{{ product }", "Describe", "prompt.template: the template cannot be read"
    ),
    Broken(
        "template placeholder",
        "Describe {{ product }}",
        "Describe {{ produkt }}",
        "{{ produkt }}",
        "uses {{ produkt }}, but no sample",
        "'product'",
    ),
    Broken("template target", "Describe {{ product }}", "Describe {{ target }}", "{{ target }}", "expected answer"),
    Broken("no rules", "{{ rules }}", "", "Write briefly", "no {{ rules }}", "at its end"),
    Broken("rules twice", "Write briefly.", "{{ rules }}", "{{ rules }}", "more than once"),
    Broken("rules filtered", "{{ rules }}", "{{ rules | upper }}", "Write briefly", "another way", "plain {{ rules }}"),
    Broken(
        "template file missing",
        GOOD[GOOD.index("  template") : GOOD.index("dataset")],
        "  file: prompt.md\n",
        "file: prompt.md",
        "no such file",
    ),
    Broken(
        "template and file",
        "  name: describe",
        "  name: describe\n  file: x.md",
        "prompt:",
        "exactly one of 'template' and 'file'",
    ),
    Broken(
        "empty template",
        GOOD[GOOD.index("  template") : GOOD.index("dataset")],
        '  template: " "\n',
        "template",
        "template is empty",
    ),
    # dataset
    Broken(
        "dataset missing", "path: products.jsonl", "path: product.jsonl", "dataset", "no such file", "'products.jsonl'"
    ),
    Broken("dataset a folder", "path: products.jsonl", "path: .", "dataset", "this is a folder"),
    Broken("shares", "split: split", "splits: {gate: 0.5, reflect: 0.1, holdout: 0.1}", "dataset", "must add up to 1"),
    Broken(
        "split and shares",
        "split: split",
        "split: split, splits: {gate: 1.0}",
        "dataset",
        "dataset.split and dataset.splits both say",
        "keep one",
    ),
    Broken(
        "share name",
        "split: split",
        "splits: {gates: 1.0}",
        "dataset",
        "must be 'gate', 'reflect' or 'holdout'",
        "'gate'",
    ),
    Broken("no target field", "target: answer", "target: anwser", '"a"', "no field 'anwser'", "'answer'", at_data=True),
    Broken("no id field", '"id": "b"', '"idd": "b"', '"b"', "no field 'id'", "'idd'", in_data=True),
    Broken("bad json", '"product": "lamp"', '"product": lamp', "lamp", "not JSON", in_data=True),
    Broken("json list", DATA, "[\n" + DATA + "]\n", "[", "not JSON", "one JSON object a line", in_data=True),
    Broken("json text", '{"id": "c"', '"x"\n{"id": "c"', '"x"', "one JSON object", in_data=True),
    Broken("json key twice", '"product": "lamp"', '"product": "lamp", "product": "x"', "lamp", "twice", in_data=True),
    Broken("json nan", '"product": "lamp"', '"product": NaN', "NaN", "not a JSON number", in_data=True),
    Broken(
        "field missing", '"product": "lamp", ', "", '"b"', "no field 'product', but the template uses", in_data=True
    ),
    Broken(
        "duplicate id",
        '"id": "c"',
        '"id": "a"',
        "pen",
        "the id 'a' stands in the data twice (first on line 1)",
        in_data=True,
    ),
    Broken("empty id", '"id": "c"', '"id": ""', "pen", "not empty", in_data=True),
    Broken(
        "bad split",
        '"split": "holdout"',
        '"split": "hold-out"',
        "pen",
        "'hold-out', which is no split",
        "'holdout'",
        in_data=True,
    ),
    Broken(
        "unknown split",
        '"split": "holdout"',
        '"split": "zz"',
        "pen",
        "no split",
        "gate, reflect or holdout",
        in_data=True,
    ),
    Broken(
        "reserved field",
        '"product": "pen"',
        '"product": "pen", "rules": "x"',
        "pen",
        "cannot be called 'rules'",
        "rename",
        in_data=True,
    ),
    Broken("empty data", DATA, "\n\n", "", "the dataset is empty", "at least one", in_data=True),
]


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: case.name)
def test_every_mistake_names_its_place_and_a_way_out(case: Broken, tmp_path: Path) -> None:
    check_mistake(case, tmp_path)


def test_the_table_is_long() -> None:
    assert len(BROKEN) >= 30
