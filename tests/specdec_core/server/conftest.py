from __future__ import annotations

from collections.abc import Iterator

import openai
import pytest

from specdec_core.engine import Engine
from specdec_core.server import Server
from tests.specdec_core.server.asking import Gate, gated_engine
from tests.specdec_core.tiny_models import make_tiny_engine


@pytest.fixture(scope="module")
def engine() -> Engine:
    """A tiny random model with 128 slots: printable ASCII in, printable nonsense out, in milliseconds."""
    return make_tiny_engine("suffix")


@pytest.fixture(scope="module")
def server(engine: Engine) -> Iterator[Server]:
    with Server(engine, names=("tiny-model",)) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=server.url, api_key=server.api_key, max_retries=0) as made:
        yield made


@pytest.fixture
def gated() -> Iterator[tuple[Server, Gate]]:
    """A server whose engine makes no round until it is let."""
    made, gate = gated_engine()
    with Server(made, max_waiting=3) as running:
        yield running, gate
        gate.open.set()
