"""Many clients of the embedded model, some of whom vanish: texts, the line, memory."""

from __future__ import annotations

import asyncio
import gc
import resource
from collections.abc import Iterator

import pytest

from specdec_core.engine import Engine, load_engine
from specdec_core.server import Server
from tests.specdec_core.server.asking import eventually, expected, num_running, num_waiting
from tests.specdec_core.server.test_line import all_at_once, jobs

pytestmark = pytest.mark.slow
MAX_TOKENS = 12


@pytest.fixture(scope="module")
def engine(embedded_folder) -> Engine:
    return load_engine(str(embedded_folder), context_length=512)


@pytest.fixture
def server(engine: Engine) -> Iterator[Server]:
    with Server(engine, names=("tiny",)) as running:
        yield running


def test_all_others_finish_with_their_text_and_memory_stays_flat(engine: Engine, server: Server) -> None:
    """Waves of 64 clients, 11 of whom vanish: what a wave keeps would show as growth."""
    texts = [
        expected(engine, f"client {number}", temperature=0.9, seed=number, max_tokens=MAX_TOKENS)
        for number in range(16)
    ]
    peaks = []
    for _ in range(4):
        found = asyncio.run(all_at_once(server, num_clients=64, max_tokens=MAX_TOKENS))
        assert sum(text is None for text in found) == 11
        assert all(text is None or text == texts[number % 16] for number, text in enumerate(found))
        eventually(lambda: num_running(server) == num_waiting(server) == 0)
        eventually(lambda: jobs() == [])
        gc.collect()
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    assert peaks[-1] < peaks[1] * 1.02, peaks
