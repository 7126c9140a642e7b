"""A task whose engine is a server: checked offline, asked only where somebody wants that, run, and interrupted."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from loopeng.store import LoopStore
from tests.loopeng.engines.openai_server import ChatServer, hangs, says, sends

if TYPE_CHECKING:
    from tests.loopeng.cli.conftest import Invoke, Shop

Started = Callable[..., subprocess.Popen[str]]
SECRET = "sk-very-secret-0123456789"


def move(shop: Shop, server: ChatServer, *more: str) -> None:
    """The shop's engine is the server now."""
    keys = ", ".join([f"base_url: {server.url}", "model: m", *more])
    shop.change("{kind: scripted, script: script.yaml}", f"{{kind: openai, {keys}}}")


def test_check_asks_nothing_unless_it_is_told_to(shop: Shop, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHOP_KEY", raising=False)
    with ChatServer(says("A mug, and")) as server:
        move(shop, server, "api_key_env: SHOP_KEY")
        page = invoke("check").stdout
        assert f"engine      openai m at {server.url}" in page
        assert "warning: engine.api_key_env: the environment variable SHOP_KEY is not set" in page
        assert server.num_lists == 0 and server.calls == []
        assert (
            "problem: the engine does not answer: engine.api_key_env" in invoke("check", "--ask-engine", code=2).stdout
        )
        monkeypatch.setenv("SHOP_KEY", SECRET)
        page = invoke("check", "--ask-engine").stdout
        assert ": 'A mug, and' (openai m, not deterministic, holds no text" in page
        assert SECRET not in page
        (body,) = server.bodies
        assert body["max_tokens"] == 8
        assert "p-00" in body["messages"][0]["content"]
        server.behaviours = [sends({"error": {"message": f"bad key {SECRET}"}}, 401)]
        page = invoke("check", "--ask-engine", code=2).stdout
        assert "the engine does not answer: " in page and "answered 401: bad key [key]" in page


def test_a_run_on_a_server_reports_as_any_other(shop: Shop, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_KEY", SECRET)
    with ChatServer(says("A fine thing for the home.")) as server:
        move(shop, server, "api_key_env: SHOP_KEY", "concurrency: 4")
        result = invoke("run", "--json")
    document = json.loads(result.stdout)
    assert (document["attempts"], document["total"]["final_passed"]) == (15, 15)
    with LoopStore.open(shop.db) as store:
        (run,) = store.runs()
        assert run.engine["details"]["base_url"] == server.url and run.engine["concurrency"] == 4
        assert {attempt.fingerprint for attempt in store.attempts(run.id)} == {"m-1"}
    assert SECRET.encode() not in b"".join(path.read_bytes() for path in shop.db.parent.iterdir() if path.is_file())
    assert SECRET not in result.stdout + result.stderr


def test_a_server_that_is_away_is_said_before_a_run_begins(shop: Shop, invoke: Invoke) -> None:
    with ChatServer(says()) as server:
        move(shop, server, "max_retries: 0")
    result = invoke("run", code=4)
    assert "no connection; is the server running?" in result.stderr


@pytest.mark.parametrize("concurrency", [pytest.param(1, marks=pytest.mark.slow), 4])
def test_ctrl_c_ends_a_run_that_waits_for_a_silent_server(
    shop: Shop, started: Started, invoke: Invoke, concurrency: int
) -> None:
    silent = threading.Semaphore(0)

    def falls_silent(call: object) -> None:
        silent.release()
        hangs(call)  # type: ignore[arg-type]

    with ChatServer(*[says("A good thing.")] * 3, falls_silent) as server:
        move(shop, server, f"concurrency: {concurrency}")
        process = started("run", "--no-improve")
        for _ in range(concurrency):
            assert silent.acquire(timeout=60)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=30)  # the server would stay silent for longer
        assert process.returncode == 130
        assert "3 of 15 samples are finished, everything is saved" in stderr
        assert "Traceback" not in stderr
        server.behaviours = [says("A good thing.")]
        document = json.loads(invoke("run", "--resume", "--no-improve", "--json").stdout)
    assert (document["attempts"], document["total"]["samples"]) == (15, 15)
