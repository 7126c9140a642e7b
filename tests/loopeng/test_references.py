from __future__ import annotations

import json

import pytest

from loopeng.errors import TaskError
from loopeng.references import import_reference, reference_of


def test_there_and_back() -> None:
    assert import_reference("json:dumps") is json.dumps
    assert reference_of(json.dumps) == "json:dumps"
    assert import_reference("os.path:join").__name__ == "join"
    assert import_reference("json:JSONDecoder.decode") is json.JSONDecoder.decode


def test_what_another_process_could_not_find_has_no_reference() -> None:
    def local() -> None: ...

    assert reference_of(local) is None
    assert reference_of(lambda: None) is None
    assert reference_of(json.JSONDecoder().decode) is None


@pytest.mark.parametrize(
    "reference", ["", ":", "json", "json:", ":dumps", "json:du mps", "a-b:c", "json:dumps:x", "1:2"]
)
def test_what_is_no_reference(reference: str) -> None:
    with pytest.raises(TaskError, match="not a reference to Python code"):
        import_reference(reference)
