"""An evaluator of weight 0 as people meet it: told of, and of no consequence."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.loopeng.cli.conftest import Invoke, Shop

FIRST = "  - {id: one-sentence"


def test_a_watcher_that_breaks_is_told_and_changes_nothing(shop: Shop, invoke: Invoke) -> None:
    shop.write("no_line.py", "def ask(text):\n    raise OSError('no line')\n")
    shop.change(FIRST, f'  - {{id: sense, type: python, weight: 0, function: "no_line:ask"}}\n{FIRST}')
    assert "could judge nothing" not in invoke("check").stdout
    told = invoke("run", "--no-improve", code=3).stdout
    assert "evaluator sense (only watches: the attempts were judged): 25 attempts on 15 samples" in told
    document = json.loads(invoke("report", "-f", "json").stdout)["rates"]["total"]
    assert (document["final"]["passed"], document["final"]["errors"]) == (5, 0)
    assert document["evaluators"]["sense"]["first"]["errors"] == 15, "the report shows what became of it"


def test_why_a_sample_did_not_pass_is_not_what_a_watcher_says(shop: Shop, invoke: Invoke) -> None:
    shop.change(FIRST, f"  - {{id: sense, type: contains, weight: 0, value: zebra}}\n{FIRST}")
    invoke("run", "--no-improve", code=3)
    for kind in ("text", "md", "junit"):
        report = invoke("report", "-f", kind).stdout
        assert "p-00" in report and "one-sentence: " in report
        assert "sense: " not in report
