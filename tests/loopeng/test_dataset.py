"""Samples: formats, ids, targets, and splits that never move."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopeng.dataset import Row, assign_split, make_samples, read_rows
from loopeng.errors import TaskError
from loopeng.schema.task import DatasetSpec

QUICK = settings(max_examples=50, deadline=None)

SHARES = {"gate": 0.5, "reflect": 0.25, "holdout": 0.25}
IDS = st.lists(st.text(min_size=1).filter(str.strip), min_size=1, max_size=20, unique_by=str.strip)


def spec(**keys: object) -> DatasetSpec:
    return DatasetSpec.model_validate({"path": "x.jsonl", **keys})


def rows(*fields: dict[str, object]) -> tuple[Row, ...]:
    return tuple(Row(each, "x.jsonl", number) for number, each in enumerate(fields, 1))


@QUICK
@given(IDS, IDS, st.randoms())
def test_adding_or_reordering_samples_moves_no_other(old: list[str], new: list[str], random: object) -> None:
    def splits(ids: list[str]) -> dict[str, str]:
        samples = make_samples(rows(*({"id": each} for each in ids)), spec(id="id"))
        return {sample.id: sample.split for sample in samples}

    before = splits(old)
    known = {each.strip() for each in old}
    more = [*old, *(each for each in new if each.strip() not in known)]
    random.shuffle(more)  # type: ignore[attr-defined]
    after = splits(more)
    assert before.items() <= after.items()


@QUICK
@given(st.text(), st.floats(0, 1))
def test_a_smaller_gate_share_only_takes_samples_out_of_the_gate(key: str, share: float) -> None:
    if assign_split(key, {"gate": share, "reflect": 1 - share}) == "gate":
        assert assign_split(key, {"gate": min(1.0, share + 0.1), "reflect": max(0.0, 0.9 - share)}) == "gate"


@QUICK
@given(st.lists(st.tuples(st.text(), st.integers(0, 3)), min_size=1, unique_by=lambda each: each[0]))
def test_a_group_stays_together(pairs: list[tuple[str, int]]) -> None:
    samples = make_samples(rows(*({"text": text, "family": family} for text, family in pairs)), spec(group="family"))
    assert len({(sample.group, sample.split) for sample in samples}) == len({sample.group for sample in samples})


def test_the_hash_is_pinned() -> None:
    """Another hash would move samples between gate and reflect sets of tasks in use."""
    assert [assign_split(key, SHARES) for key in ("mug", "lamp", "cup")] == ["holdout", "gate", "reflect"]


def test_shares_are_met() -> None:
    counts = Counter(assign_split(str(number), SHARES) for number in range(4000))
    assert abs(counts["gate"] - 2000) < 160  # five standard deviations
    assert abs(counts["holdout"] - 1000) < 140


def test_jsonl_with_windows_newlines_mark_and_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}\r\n\r\n  \r\n{"a": "\xe2\x80\xa8"}')
    assert [(row.fields, row.line) for row in read_rows(path)] == [({"a": 1}, 1), ({"a": "\u2028"}, 4)]


def test_csv_with_windows_newlines_mark_quotes_and_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "x.CSV"
    path.write_bytes(b'\xef\xbb\xbfa, b\r\n"one\r\ntwo",x\r\n\r\n,\r\n"say ""hi""",y\r\n')
    assert [(dict(row.fields), row.line) for row in read_rows(path)] == [
        ({"a": "one\ntwo", "b": "x"}, 2),
        ({"a": 'say "hi"', "b": "y"}, 6),
    ]


@pytest.mark.parametrize(
    ("name", "text", "line", "says"),
    [
        ("x.csv", "a,b\n1\n", 2, "fields in this row: 1, named on the first line: 2"),
        ("x.csv", "a,b\n1,2\n1,2,3\n", 3, "fields in this row: 3"),
        ("x.csv", "a,a\n1,2\n", 1, "names 'a' twice"),
        ("x.csv", "a,\n1,2\n", 1, "an empty name"),
        ("x.csv", "a;b\n1;2\n", 1, "no commas"),
        ("x.csv", 'a,b\n1,"2\n', 2, "not CSV"),
        ("x.csv", "a,b\n", None, "empty"),
        ("x.csv", "", None, "empty"),
        ("x.jsonl", "", None, "empty"),
        ("x.jsonl", '{"a": 1}\n{"a": 1e999}\n', 2, "too large"),
        ("x.jsonl", '{"a": 1}\n{"a": -Infinity}\n', 2, "not a JSON number"),
        ("x.jsonl", "null\n", 1, "one JSON object"),
        ("x.jsonl", '{"a": 1}\n{"a": "x\\ud83d"}\n', 2, "half a character"),
        ("x.jsonl", '{"a": ' + "[" * 100_000 + "\n", 1, "not JSON"),
        ("x.json", "[]", None, "'x.json' is no data file"),
        ("data", "[]", None, "'data' is no data file"),
    ],
)
def test_bad_files(name: str, text: str, line: int | None, says: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(TaskError, match=says) as caught:
        read_rows(path)
    assert (caught.value.file, caught.value.line) == (str(path), line)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a": "\xff"}\n')
    with pytest.raises(TaskError, match="not UTF-8") as caught:
        read_rows(path)
    assert caught.value.line == 2


def test_ids_targets_and_inputs() -> None:
    samples = make_samples(
        rows({"n": 7, "q": "2+2", "a": 4, "s": "gate"}, {"n": 8, "q": "3+3", "a": None, "s": " reflect "}),
        spec(id="n", target="a", split="s"),
    )
    assert [(each.id, each.inputs, each.target, each.split) for each in samples] == [
        ("7", {"n": 7, "q": "2+2"}, 4, "gate"),
        ("8", {"n": 8, "q": "3+3"}, None, "reflect"),
    ]


def test_without_an_id_field_the_input_names_the_sample() -> None:
    first, second = make_samples(rows({"q": "a", "t": 1}, {"q": "b", "t": 1}), spec(target="t"))
    assert first.id != second.id
    assert make_samples(rows({"q": "a", "t": 2}), spec(target="t"))[0].id == first.id  # the target is not part of it


@pytest.mark.parametrize(
    ("fields", "keys", "says"),
    [
        ([{"q": "a"}, {"q": "a"}], {}, "same input stands in the data twice"),
        ([{"id": 1}, {"id": "1"}], {"id": "id"}, "the id '1' stands in the data twice"),
        ([{"id": True}], {"id": "id"}, "must be text or a whole number"),
        ([{"id": " "}], {"id": "id"}, "not empty"),
        ([{"id": 1.5}], {"id": "id"}, "not 1.5"),
        ([{"q": "a"}], {"id": "id"}, "no field 'id'"),
        ([{"q": "a"}], {"group": "g"}, "no field 'g'"),
        ([{"q": "a"}], {"split": "s"}, "no field 's'"),
        ([{"q": "a", "s": 3}], {"split": "s"}, "'s' is 3, which is no split"),
        ([{"q": "a", "target": 3}], {}, "cannot be called 'target'"),
        (
            [{"q": 1, "s": "gate", "g": "x"}, {"q": 2, "s": "reflect", "g": "x"}],
            {"split": "s", "group": "g"},
            "group 'x'",
        ),
    ],
)
def test_bad_samples_are_named_by_their_line(fields: list[dict[str, object]], keys: dict[str, str], says: str) -> None:
    with pytest.raises(TaskError, match=says) as caught:
        make_samples(rows(*fields), spec(**keys))
    assert caught.value.line == len(fields)
