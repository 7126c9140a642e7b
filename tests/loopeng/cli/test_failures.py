"""``loopeng failures``: what comes back, whose fault it is, and what a person can do about it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from loopeng.store import LoopStore

if TYPE_CHECKING:
    from tests.loopeng.cli.conftest import Invoke, Shop


def listed(invoke: Invoke, *options: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(invoke("failures", "list", "--json", *options).stdout)
    return found


def reworded(shop: Shop, fingerprint: str = "v1:0") -> str:
    """A pattern that reads as the one of ``short``, such as an earlier version of loopeng left."""
    with LoopStore.open(shop.db) as store:
        run = store.runs(kind="suite")[0]
        like = next(pattern for pattern in store.patterns() if pattern.evaluator == "short")
        return store.record_occurrence(
            prompt_name=run.prompt_name, prompt_version_id=run.prompt_version_id, run_id=run.id, sample_id="p-00",
            fingerprint=fingerprint, evaluator="short", category=like.category, reason=like.reason, remedy=None,
            fault_side="model",
        )  # fmt: skip


def test_the_list(ran: Shop, invoke: Invoke) -> None:
    result = invoke("failures", "list")
    head, *lines = result.stdout.splitlines()
    assert head.split()[:6] == ["pattern", "state", "fault", "samples", "times", "rate"] and len(lines) == 2
    row = (
        r'^pat-\w+ +proposed +model +5 +5 +100 % +describe +short +length.too_long +"20 words, at most 10 words wanted"'
    )
    assert re.search(row, "\n".join(lines), re.MULTILINE)
    assert result.stderr == ""
    first = listed(invoke, "--prompt", "describe")[0]
    assert (first["num_samples"], first["num_judged"], first["suggestion"]) == (5, 5, None)
    assert first["example"]["sample_id"].startswith("p-0") and "very fine" in first["example"]["output"]
    assert "describe" in invoke("failures", "list", "--prompt", "other", code=2).stderr


def test_one_failure(ran: Shop, invoke: Invoke) -> None:
    pattern = next(each["id"] for each in listed(invoke) if each["evaluator"] == "short")
    text = invoke("failures", "show", pattern, "--examples", "2").stdout
    assert text.startswith(f"{pattern}  short: length.too_long  [proposed]\n")
    assert "5/5 (100 %) reflect samples, 5 occurrences" in text
    assert text.count("This is a very fine product") == 2 and "remedy: " in text
    assert re.search(r"history\n .*  first seen\n .*  proposal prop-\w+ started, now pending\n", text)
    assert f"mute  loopeng failures mute {pattern} --reason 'why it is no mistake'" in text
    assert "propose" not in text.splitlines()[-1]  # there is one
    shown = json.loads(invoke("failures", "show", pattern, "--json").stdout)
    assert len(shown["examples"]) == 3 and shown["decisions"] == [] and shown["pattern"]["id"] == pattern
    assert "pat-none" in invoke("failures", "show", "pat-none", code=2).stderr


def test_what_broke_is_listed_with_whose_fault_it_is(shop: Shop, invoke: Invoke) -> None:
    """Every night the engine is down for the same sample: that is worth knowing, and no prompt can mend it."""
    script = (shop.folder / "script.yaml").read_text(encoding="utf-8")
    shop.write("script.yaml", script.replace("replies:\n", 'replies:\n  - {when: "p-02", error: "out of steam"}\n'))
    report = invoke("run", "--no-improve", code=4).stdout
    assert "engine or agent: 1 attempt on 1 sample (p-02)" in report
    assert report.count("out of steam") == 1  # among the errors, not once more among the failures
    table = invoke("failures", "list").stdout
    assert re.search(r'open +environment +1 +1 +20 % +describe +engine +engine.error +"out of steam"', table)
    assert re.search(r"open +model +4 +4 +100 % +describe +short", table)
    (broken,) = [each["id"] for each in listed(invoke) if each["fault_side"] == "environment"]
    text = invoke("failures", "show", broken).stdout
    assert "fault of the environment, not the model: no prompt change is proposed for it" in text
    assert "propose  " not in text
    refused = invoke("propose", "--pattern", broken, code=2).stderr
    assert f"{broken}: it is the fault of the environment, which no rule can prevent" in refused


def test_a_suggestion_is_a_command_and_only_a_person_runs_it(ran: Shop, invoke: Invoke) -> None:
    new = reworded(ran)
    old = next(each["id"] for each in listed(invoke) if each["evaluator"] == "short" and each["id"] != new)
    note = invoke("failures", "list").stderr
    line = f"loopeng failures merge {new} {old}"
    assert "these read nearly alike; if they are one mistake, merge them:\n" in note
    assert f"  {line}    # 100 % alike\n" in note
    (told,) = [each["suggestion"] for each in listed(invoke) if each["suggestion"]]
    assert (told["source"], told["into"], told["command"]) == (new, old, line)
    shown = invoke("failures", "show", new).stdout
    assert f"reads nearly like {old}  short: length.too_long" in shown and f"merge    {line}" in shown

    done = invoke(*line.split()[1:], "--by", "ben", "--reason", "the same").stdout
    assert done == f"{new} is merged into {old}, which has 5 samples now\n"
    after = invoke("failures", "list")
    assert new not in after.stdout and "1 muted or merged are not shown; see them with --all" in after.stderr
    assert "nearly alike" not in after.stderr
    assert re.search(rf"{new} +merged +model +0", invoke("failures", "list", "--all").stdout)
    gone = invoke("failures", "show", new).stdout
    assert f"[merged (merged into {old} by ben: the same)]" in gone
    assert gone.splitlines()[-1] == f"show  loopeng failures show {old}"
    assert f"merge {new} into {old} by ben: the same" in invoke("failures", "show", old).stdout
    assert f"{new} was merged: name {old}" in invoke("failures", "merge", new, old, code=7).stderr


def test_a_pattern_of_an_open_proposal_is_not_merged_away(ran: Shop, invoke: Invoke) -> None:
    new = reworded(ran)
    old = next(each["id"] for each in listed(invoke) if each["evaluator"] == "short" and each["id"] != new)
    refused = invoke("failures", "merge", old, new, code=7).stderr
    assert "(pending) is about" in refused and "merge the other way round" in refused
    assert "into itself" in invoke("failures", "merge", new, new, code=2).stderr


def test_muting_and_unmuting(shop: Shop, invoke: Invoke) -> None:
    invoke("run", "--no-improve", code=3)
    pattern, other = (each["id"] for each in listed(invoke))
    assert "--reason" in invoke("failures", "mute", pattern, code=2).stderr
    assert invoke("failures", "mute", pattern, "--reason", "long names").stdout == f"{pattern} is muted\n"
    assert [each["id"] for each in listed(invoke)] == [other]
    assert [each["state"] for each in listed(invoke, "--all") if each["id"] == pattern] == ["muted"]
    text = invoke("failures", "show", pattern).stdout
    assert "[muted (long names)]" in text and f"mute {pattern} by ana: long names" in text
    assert text.splitlines()[-1] == f"unmute  loopeng failures unmute {pattern}"
    (proposal,) = json.loads(invoke("propose", "--json").stdout)
    with LoopStore.open(shop.db) as store:
        assert store.proposal(proposal["id"]).pattern_ids == (other,)
    assert "it is muted (long names)" in invoke("propose", "--pattern", pattern, code=2).stderr

    document = json.loads(invoke("failures", "unmute", pattern, "--json", "--by", "ben").stdout)
    assert (document["pattern"]["state"], document["decision"]["action"]) == ("open", "unmute")
    assert document["decision"]["by"] == "ben"
    assert "is open, not muted" in invoke("failures", "unmute", pattern, code=7).stderr
    log = invoke("prompts", "log", "describe").stdout
    assert re.search(rf"mute +ana +{pattern}, reason: long names", log)
    assert re.search(rf"unmute +ben +{pattern}", log)


def test_no_failures(shop: Shop, invoke: Invoke) -> None:
    shop.write("script.yaml", "default: A good thing.\n")
    invoke("run")
    result = invoke("failures", "list")
    assert (result.stdout, result.stderr) == ("", "no recurring failures\n")
