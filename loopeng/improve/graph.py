"""IMPROVE: the circle from failure patterns to a committed change, and how it is woken.

::

    route -> reproduce -> reflect -> guards -> gate -> holdout -> publish -> AWAIT -> route ...
    route --approved--> commit -> watch -> END
    route --a rollback, drafted by a watch--> publish

The database decides, LangGraph only wakes: ``route`` reads the proposal's state and jumps to its station, so a thread
whose checkpoint is gone starts over and arrives where it was. After AWAIT the way goes back to ``route``, which finds
the decision: approved leads to commit, an edit (testing again) to guards, everything else to the end.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command

from loopeng.improve import nodes
from loopeng.improve.nodes import ImproveContext, ImproveState

__all__ = ["forget_threads", "improve_graph", "thread_name", "wake"]

_BUSY_TIMEOUT_S = 30.0


def improve_graph(
    checkpointer: BaseCheckpointSaver[Any] | None = None,
) -> CompiledStateGraph[ImproveState, ImproveContext, ImproveState, ImproveState]:
    """The circle. AWAIT needs a checkpointer; without one the graph is good for a picture."""
    circle = StateGraph(ImproveState, context_schema=ImproveContext)
    circle.add_node("route", nodes.route)
    circle.add_node("reproduce", nodes.reproduce)
    circle.add_node("reflect", nodes.reflect)
    circle.add_node("guards", nodes.guards)
    circle.add_node("gate", nodes.gate)
    circle.add_node("holdout", nodes.holdout)
    circle.add_node("publish", nodes.publish)
    circle.add_node("AWAIT", nodes.await_decision)
    circle.add_node("commit", nodes.commit)
    circle.add_node("watch", nodes.watch)

    circle.add_edge(START, "route")
    circle.add_conditional_edges(
        "route", nodes.start, [*dict.fromkeys(nodes.STATION_OF_STATE.values()), "publish", END]
    )
    for station, following in (
        ("reproduce", "reflect"),
        ("reflect", "guards"),
        ("guards", "gate"),
        ("gate", "holdout"),
        ("holdout", "publish"),
        ("publish", "AWAIT"),
        ("commit", "watch"),
    ):
        circle.add_conditional_edges(station, _onward_to(following), [following, END])
    circle.add_edge("AWAIT", "route")
    circle.add_edge("watch", END)
    return circle.compile(checkpointer=checkpointer, name="improve")


def wake(proposal_id: str, context: ImproveContext, checkpoints: Path) -> int | None:
    """Let a proposal's thread go as far as it can. Returns the revision it waits at, None when its work is done.

    Whether it was resumed, or started over because the checkpoint is gone, makes no difference. A thread that does not
    wait is deleted: its proposal's state says all there is to know.
    """
    thread: RunnableConfig = {"configurable": {"thread_id": thread_name(proposal_id)}}
    with _checkpoint_saver(checkpoints) as saver:
        graph = improve_graph(saver)
        waits = bool(graph.get_state(thread).interrupts)
        call: Any = Command(resume=proposal_id) if waits else {"proposal_id": proposal_id}
        result = graph.invoke(call, thread, context=context, durability="exit")
        waiting = result.get("__interrupt__", ())
        if not waiting:
            saver.delete_thread(thread_name(proposal_id))
            return None
        revision: int = waiting[0].value["revision"]
        return revision


def forget_threads(checkpoints: Path, proposal_ids: Collection[str]) -> None:
    """Delete the threads of proposals that ended while nobody looked, by expiry for example."""
    if not checkpoints.exists():
        return
    with _checkpoint_saver(checkpoints) as saver:
        with saver.cursor(transaction=False) as cursor:
            there = {name for (name,) in cursor.execute("SELECT DISTINCT thread_id FROM checkpoints")}
        for name in sorted(there & {thread_name(proposal_id) for proposal_id in proposal_ids}):
            saver.delete_thread(name)


def thread_name(proposal_id: str) -> str:
    """Of the thread, and of the lease that keeps two processes off it."""
    return f"proposal:{proposal_id}"


def _onward_to(following: str) -> Callable[[ImproveState], str]:
    return lambda state: following if state["going"] else END


@contextmanager
def _checkpoint_saver(path: Path) -> Iterator[SqliteSaver]:
    """Checkpoints in a file of their own. It may be deleted at any time; one that cannot be read is made anew."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not _readable(path):
        path.unlink(missing_ok=True)
    strict = JsonPlusSerializer(allowed_msgpack_modules=None)  # plain values only: nothing is imported on load
    with closing(_connect(path)) as connection:
        yield SqliteSaver(connection, serde=strict)


def _readable(path: Path) -> bool:
    try:
        with closing(_connect(path)) as connection:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        return True  # busy, or a folder without write permission: not for us to delete
    except sqlite3.DatabaseError:
        return False
    return True


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=_BUSY_TIMEOUT_S, check_same_thread=False)
