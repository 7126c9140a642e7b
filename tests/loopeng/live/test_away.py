"""A database that is away costs a warning, not the answer; what was answered meanwhile is written once it is back."""

from __future__ import annotations

import os
import resource
import shutil
import sqlite3
import tempfile
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from loopeng import AgentResult, Loop
from loopeng.errors import NotFoundError, RecordingWarning, StoreError, UsageError
from loopeng.live.reach import Reach
from loopeng.live.recorder import Recorder
from loopeng.schema import Rule, SampleResult, Usage, utc_now
from loopeng.schema.task import LoopSpec
from loopeng.settings import LiveSettings
from loopeng.store import LiveCall, LiveSource, LoopStore
from tests.loopeng.live.traffic import LONG, SHORT, SPECS, TEMPLATE, ask, locked, num_calls, open_loop, rows

BRIEFLY = {"patience_seconds": 0.01, "retry_seconds": 0.0, "head_seconds": 0.0}


def silently(loop: Loop, product: str) -> str:
    """Ask, where another warning would be an error."""
    return ask(loop, product, max_attempts=1).text


def test_a_locked_database(path: Path) -> None:
    with open_loop(path, **BRIEFLY) as loop:
        assert ask(loop, "before").text == SHORT
        with locked(path):
            with pytest.warns(RecordingWarning, match=r"loop\.db is locked.*wait in memory") as told:
                assert silently(loop, "during 0") == LONG
            assert len(told) == 1
            assert [silently(loop, f"during {number}") for number in range(1, 4)] == [LONG] * 3  # told once
        assert num_calls(path) == 1
        silently(loop, "after")
        assert num_calls(path) == 6
        silently(loop, "during 0")
    assert num_calls(path) == 7  # nothing came twice
    repeats = rows(path, "SELECT sample_id, count(*), max(repeat) FROM live_call GROUP BY 1 ORDER BY 2 DESC")
    assert repeats[0][1:] == (2, 1)


def test_away_from_the_first_call_on(path: Path) -> None:
    """The template that the application brings is all that is known; it is adopted when the database is back."""
    with open_loop(path, **BRIEFLY) as loop:
        with locked(path):
            with pytest.warns(RecordingWarning):
                result = ask(loop)
            assert (result.text, result.version.id, result.version.number) == (SHORT, "", 0)
            with pytest.raises(NotFoundError):
                ask(loop, template=None)  # there is nothing to answer by
        assert ask(loop).version.number == 1
        (run,) = loop.store.runs(kind="live")
        assert run.prompt_version_id == loop.store.head("describe").id
    assert num_calls(path) == 2


def test_while_it_is_known_to_be_away_nobody_waits_for_it(path: Path) -> None:
    with open_loop(path, patience_seconds=0.2, retry_seconds=600) as loop:
        ask(loop, "before")
        with locked(path):
            with pytest.warns(RecordingWarning):
                ask(loop, "during")
            reach: Reach = loop._live._reach
            assert reach.is_away
        silently(loop, "after")  # it is back, but is left alone for ten minutes
        assert num_calls(path) == 1
    assert num_calls(path) == 3  # closing tries again


def test_there_is_only_so_much_room(path: Path) -> None:
    with open_loop(path, buffer_calls=3, **BRIEFLY) as loop:
        ask(loop, "before")
        with locked(path):
            with pytest.warns(RecordingWarning, match="up to 3 wait"):
                ask(loop, "during 0")
            for number in range(1, 5):
                ask(loop, f"during {number}")
        with pytest.warns(RecordingWarning, match="2 calls were not recorded meanwhile"):
            ask(loop, "after")
    kept = {row[0] for row in rows(path, "SELECT json_extract(inputs, '$.product') FROM live_sample")}
    assert kept == {"before", "during 2", "during 3", "during 4", "after"}


def test_closing_without_the_database_says_what_is_lost(path: Path) -> None:
    with locked(path):
        loop = open_loop(path, **BRIEFLY)
        with pytest.warns(RecordingWarning):
            ask(loop)
        with pytest.warns(RecordingWarning, match="1 calls were never recorded"):
            loop.close()


def test_a_folder_that_is_deleted(path: Path, tmp_path: Path) -> None:
    """Whoever has the file open could write it on, and nobody would ever read that."""
    with open_loop(path, **BRIEFLY) as loop:
        ask(loop, "before")
        shutil.rmtree(path.parent)
        with pytest.warns(RecordingWarning, match=r"loop\.db is gone"):
            assert ask(loop, "during").text == SHORT
        path.parent.mkdir()
        LoopStore.open(path).close()  # a new one: it knows nothing of the prompt
        assert ask(loop, "after").text == SHORT
        assert num_calls(path) == 2
    with LoopStore.open(path) as store:
        assert store.head("describe").template == TEMPLATE


def test_a_head_that_cannot_be_read_at_all(path: Path, tmp_path: Path) -> None:
    with open_loop(path, **BRIEFLY) as loop:
        path.parent.rename(tmp_path / "elsewhere")
        with pytest.raises(StoreError, match="is gone"):
            ask(loop, template=None)
        with pytest.warns(RecordingWarning):
            assert ask(loop).text == SHORT
        (tmp_path / "elsewhere").rename(path.parent)
    assert num_calls(path) == 1  # closing writes it


def test_a_folder_that_is_moved_away_and_back(path: Path, tmp_path: Path) -> None:
    with open_loop(path, **BRIEFLY) as loop:
        ask(loop, "before")
        path.parent.rename(tmp_path / "elsewhere")
        with pytest.warns(RecordingWarning):
            ask(loop, "during")
        (tmp_path / "elsewhere").rename(path.parent)
        ask(loop, "after")
    assert num_calls(path) == 3


@contextmanager
def another_user() -> Iterator[None]:
    """Rights bind; of the superuser they do not."""
    if os.geteuid() != 0:
        yield
        return
    os.setresuid(65534, 65534, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


def test_a_database_that_may_only_be_read(path: Path) -> None:
    with open_loop(path) as loop:
        ask(loop, "before")  # everything is imported, and the log is moved into the file
    folder = Path(tempfile.mkdtemp())  # where other users may go
    try:
        there = Path(shutil.copy(path, folder / "loop.db"))
        there.chmod(0o444)
        folder.chmod(0o555)
        with another_user():
            loop = open_loop(there, **BRIEFLY)
            with pytest.warns(RecordingWarning, match="is not writable"):
                result = ask(loop, "during")
            assert (result.text, result.version.number) == (SHORT, 1)
        folder.chmod(0o755)
        there.chmod(0o644)
        assert ask(loop, "after").text == SHORT
        loop.close()
        assert num_calls(there) == 3
    finally:
        shutil.rmtree(folder)


@contextmanager
def no_file_grows_beyond(num_bytes: int) -> Iterator[None]:
    """As on a full disk: the operating system refuses to write more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk(path: Path) -> None:
    with open_loop(path, **BRIEFLY) as loop:
        ask(loop, "before")
        with no_file_grows_beyond(path.with_name("loop.db-wal").stat().st_size), pytest.warns(RecordingWarning):
            assert ask(loop, "during " * 2000).text == SHORT
        ask(loop, "after")
    assert num_calls(path) == 3
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_many_threads_while_it_comes_and_goes(path: Path) -> None:
    with open_loop(path, patience_seconds=0.001, retry_seconds=0.0) as loop, warnings.catch_warnings():
        warnings.simplefilter("ignore", RecordingWarning)
        ask(loop, "before")
        with ThreadPoolExecutor(8) as pool:
            futures = [pool.submit(ask, loop, f"thing {number}", max_attempts=1) for number in range(40)]
            for _ in range(5):
                with closing(sqlite3.connect(path, isolation_level=None, timeout=30)) as other:
                    other.execute("BEGIN IMMEDIATE")
                    other.execute("ROLLBACK")
            assert {future.result().text for future in futures} == {LONG}
    assert num_calls(path) == 41
    assert rows(path, "SELECT count(*), count(DISTINCT id) FROM live_call")[0] == (41, 41)


def test_a_call_is_written_once_however_often_it_is_said(path: Path) -> None:
    """A commit may have worked although its answer never came."""
    with open_loop(path) as loop:
        result = ask(loop)
        task = loop.store.task(loop.store.runs(kind="live")[0].task_hash)
        source = LiveSource(task.model_copy(update={"loop": LoopSpec()}), result.version, 0, {})
        call = _call("again", source, result.attempts[0].sample_id, loop)
        place = {"again": (source.run(call.at).id, 0)}
        for calls in ([call], [call, call]):
            saved = loop.store.save_live_calls(calls)
            assert (saved.places, saved.refused) == (place, {})
        assert num_calls(path) == 2
        other = replace(call, id="other")  # of another process, whose seeds were made with the same repeat
        assert loop.store.save_live_calls([other]).places == {"other": (source.run(call.at).id, 1)}


def test_a_call_that_can_never_be_kept_does_not_hold_up_the_others(path: Path) -> None:
    with open_loop(path) as loop:
        result = ask(loop)
        task = loop.store.task(loop.store.runs(kind="live")[0].task_hash)
        source = LiveSource(task, result.version, 5, {})
        good, bad = (_call(name, source, result.attempts[0].sample_id, loop) for name in ("good", "bad"))
        bad = replace(bad, sample=bad.sample.model_copy(update={"inputs": {"x": object()}}))
        settings = LiveSettings()
        recorder = Recorder(Reach(loop.store, settings), settings)
        with pytest.warns(RecordingWarning, match="cannot be recorded"):
            recorder.keep(bad)
        recorder.keep(good)
        recorder.close()
    assert num_calls(path) == 2


def test_numbers_that_no_database_can_hold(path: Path) -> None:
    """An app that counted its tokens wrongly lost its answer, and the answers of all calls after it."""
    with open_loop(path) as loop:
        ask(loop, "before")
        wrong = AgentResult(text=SHORT, usage=Usage(prompt_tokens=2**70))
        with pytest.warns(RecordingWarning, match=r"cannot be recorded: OverflowError.*too large"):
            assert loop.observe("describe", {"product": "mug"}, wrong, evaluators=SPECS).passed
        assert silently(loop, "after") == LONG
    assert num_calls(path) == 2


def test_a_template_without_a_place_for_what_was_learned_meanwhile(path: Path, tmp_path: Path) -> None:
    """The calls that it has answered cannot be kept; those of other prompts are none the worse for it."""
    with LoopStore.open(path) as store:
        rule = Rule(id="short", text="Use at most five words.")
        store.adopt_template("describe", TEMPLATE, by="test", rules=(rule,))
    with open_loop(path, **BRIEFLY) as loop:
        path.parent.rename(tmp_path / "elsewhere")
        with pytest.warns(RecordingWarning, match="is gone"):
            assert ask(loop, template="Describe {{ product }}", max_attempts=1).text == LONG
        (tmp_path / "elsewhere").rename(path.parent)
        with pytest.warns(RecordingWarning, match="cannot be recorded: .*rules"):
            loop.attempt("other", {"product": "cup"}, evaluators=SPECS, template=TEMPLATE)
        with pytest.raises(UsageError, match="rules"):  # nobody has to guess why
            ask(loop, template="Describe {{ product }}")
    assert num_calls(path) == 1


def _call(name: str, source: LiveSource, sample_id: str, loop: Loop) -> LiveCall:
    (sample,) = (each for each in loop.store.live_samples("describe") if each.id == sample_id)
    (run,) = loop.store.runs(kind="live")
    first = loop.store.attempts(run.id)[0]
    result = SampleResult(
        run_id=run.id, sample_id=sample_id, split=sample.split, first_verdict="fail", verdict="fail",
        best_attempt_index=0, num_attempts=1,
    )  # fmt: skip
    return LiveCall(name, source, sample, utc_now(), 0, (first,), result)
