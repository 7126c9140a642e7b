"""What is redacted never reaches the disk: not the database, not its log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopeng import AgentContext, AgentResult, EvalResult, LiveSettings, Loop
from loopeng.errors import RecordingWarning
from loopeng.live.redaction import REDACTED, Redactor
from loopeng.schema import content_hash
from tests.loopeng.live.traffic import SPECS, ask, num_calls, rows

CARD = "4111222233334444"
SECRET = r"\d{16}"
TEMPLATE = "Charge {{ customer }} on {{ card }}{{ rules }}"


class Gossip:
    """An evaluator that repeats everything it sees."""

    id, categories = "gossip", frozenset({"gossip.said"})

    def evaluate(self, sample: Any, attempt: Any, context: Any) -> EvalResult:
        return EvalResult(
            evaluator=self.id, passed=False, score=0.0, category="gossip.said", reason=f"saw {attempt.text}",
            feedback=f"not {attempt.text}", remedy=f"Never say {CARD}.", metadata={"seen": [attempt.text, int(CARD)]},
        )  # fmt: skip


def careless(context: AgentContext) -> AgentResult:
    return AgentResult(
        text=f"charged {context.input['card']}", trajectory=[{CARD: context.instructions}], token_ids=(1, 2, 3)
    )


def everything_on_disk(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in path.parent.iterdir() if file.is_file())


@pytest.mark.parametrize("rule", [(SECRET,), lambda text: text.replace(CARD, "***")])
def test_secrets_never_reach_the_disk(path: Path, rule: Any) -> None:
    inputs = {"customer": "ana", "card": int(CARD), "notes": {"old " + CARD: [f"a {CARD} b"]}}
    evaluators = [*SPECS, Gossip(), {"id": "says", "type": "contains", "value": CARD}]
    with Loop.open(path, engine=lambda m, p: "", agent=careless, live=LiveSettings(redact=rule)) as loop:
        for number in range(8):
            result = loop.attempt("charge", inputs | {"number": number}, evaluators=evaluators, template=TEMPLATE)
            assert CARD in result.text  # the application gets the answer as it is
        loop.observe("charge", inputs, f"done {CARD}", evaluators=evaluators)
        found = everything_on_disk(path)  # with the log, while it is open
        assert b"charged" in found and CARD.encode() not in found
        assert num_calls(path) == 9
        sample = loop.store.live_samples("charge", limit=1)[0]
        assert sample.id == content_hash(sample.inputs)[:16]  # nobody can guess the secret from the id
        (run, *_) = loop.store.runs(kind="live")
        assert {attempt.token_ids for attempt in loop.store.attempts(run.id)} == {None}
        assert all(CARD not in pattern.reason for pattern in loop.store.patterns("charge"))
    assert CARD.encode() not in everything_on_disk(path)


def test_without_a_rule_everything_is_kept(loop: Loop, path: Path) -> None:
    ask(loop, CARD)
    assert CARD.encode() in everything_on_disk(path)


def test_what_cannot_be_redacted_is_not_recorded(path: Path) -> None:
    def broken(text: str) -> str:
        raise RuntimeError(text)

    for rule in (broken, lambda text: None):
        settings = LiveSettings(redact=rule)  # type: ignore[arg-type]
        with (
            Loop.open(path, engine=lambda m, p: "a mug", live=settings) as loop,
            pytest.warns(RecordingWarning, match="could not be redacted"),
        ):
            assert ask(loop, "mug").text == "a mug"
    assert rows(path, "SELECT * FROM live_call") == [] and b"a mug" not in everything_on_disk(path)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(value=_JSON)
def test_nothing_of_four_digits_is_left_anywhere(value: Any) -> None:
    redactor = Redactor([r"\d{4,}"])
    redacted = redactor.value(value)
    assert not _has_digits(redacted)
    assert redactor.value(redacted) == redacted


def _has_digits(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_digits, [*value, *value.values()]))
    if isinstance(value, list):
        return any(map(_has_digits, value))
    text = str(value)
    return not isinstance(value, bool) and any(text[place : place + 4].isdecimal() and len(text[place : place + 4]) == 4
                                               for place in range(len(text)))  # fmt: skip


@given(value=_JSON)
def test_what_holds_no_secret_stays_as_it_is(value: Any) -> None:
    assert Redactor(["\x00never\x00"]).value(value) == _mended(value)


def _mended(value: Any) -> Any:
    if isinstance(value, dict):
        return {_mended(name): _mended(each) for name, each in value.items()}
    if isinstance(value, list):
        return list(map(_mended, value))
    if isinstance(value, float) and abs(value) == float("inf"):
        return str(value)
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def test_a_number_that_is_a_secret_becomes_text() -> None:
    assert Redactor([SECRET]).inputs({"card": int(CARD), "size": 3}) == {"card": REDACTED, "size": 3}
