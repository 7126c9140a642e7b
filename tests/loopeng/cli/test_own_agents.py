"""What the command line says of the user's own agent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.loopeng.cli.conftest import Invoke, Shop

AGENT = "agent: {command: [sh, agent.sh]}\nengine: "


@pytest.fixture
def own(shop: Shop) -> Shop:
    shop.change("engine: ", AGENT)
    shop.write("agent.sh", "cat > /dev/null; echo A fine thing.\n")
    return shop


def test_check_names_the_agent_and_what_its_gate_will_miss(own: Shop, invoke: Invoke) -> None:
    page = invoke("check").stdout
    assert "agent       command sh agent.sh, not run again by reproduction, gate and hold-out\n" in page
    assert "note: the agent is not run again, so no proposal of this task is tested; say 'replayable: true'" in page
    own.change("[sh, agent.sh]}", "[sh, agent.sh], replayable: true}")
    page = invoke("check").stdout
    assert "agent       command sh agent.sh\n" in page and "the agent is not run again" not in page
    document = json.loads(invoke("check", "--json").stdout)
    assert document["agent"] == {"kind": "command", "command": ["sh", "agent.sh"], "replayable": True}


def test_the_built_in_agent_goes_without_saying(shop: Shop, invoke: Invoke) -> None:
    assert "\nagent " not in invoke("check").stdout
    assert json.loads(invoke("check", "--json").stdout)["agent"] == {"kind": "llm"}


def test_a_missing_program_is_a_mistake_with_its_place(shop: Shop, invoke: Invoke) -> None:
    shop.change("engine: ", "agent: {command: [./agnt.sh]}\nengine: ")
    shop.write("agent.sh", "")
    said = invoke("check", code=2).stderr
    assert "task.yaml:8" in said and "there is no program" in said and "did you mean './agent.sh'?" in said


def test_runs_and_reports_name_the_agent(own: Shop, invoke: Invoke) -> None:
    assert "\nagent command: sh agent.sh\n" in invoke("run", "--no-improve").stdout
    run_id = json.loads(invoke("runs", "list", "--json").stdout)[0]["run"]["id"]
    assert "agent `command: sh agent.sh`" in invoke("report", run_id, "--format", "md").stdout
    assert '"command: sh agent.sh"' in invoke("report", run_id, "--format", "junit").stdout
    assert json.loads(invoke("report", run_id, "--format", "json").stdout)["run"]["engine"]["agent"] == (
        "command: sh agent.sh"
    )
