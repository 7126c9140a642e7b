"""Servers of the OpenAI protocol as engines: vLLM, SGLang, llama.cpp, Ollama, hosted ones, ``specdec serve``."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from loopeng.engines.engine_keys import key_of, problems_of_server
from loopeng.engines.interruption import wait_for
from loopeng.engines.openai_transport import Server
from loopeng.engines.openai_wire import ServerFacts, chat_body, chat_reply, holds_schemas, refusal, server_facts
from loopeng.errors import EngineError, TaskError
from loopeng.ports import Endpoint, EngineInfo, TextReply, TextRequest
from loopeng.schema import Usage
from loopeng.schema.engine_section import EngineSpec

__all__ = ["OpenAIEngine"]


class OpenAIEngine:
    """Takes several requests at once, from any threads. The server is asked at the first use what it is."""

    def __init__(self, server: Server, spec: EngineSpec) -> None:
        self.server, self.spec = server, spec
        self._facts: ServerFacts | None = None
        self._asking = threading.Lock()

    @classmethod
    def from_spec(cls, spec: EngineSpec, base_dir: Path | None = None) -> OpenAIEngine:
        """The engine of ``{kind: openai, base_url: ..., model: ...}``. Asks nothing yet.

        Raises TaskError where a key is missing, UsageError where the variable with the server's key is not set.
        """
        for problem in problems_of_server(spec):
            raise TaskError(problem.message, suggestion=problem.suggestion)
        assert spec.base_url is not None
        server = Server(spec.base_url, key=key_of(spec), time_limit_s=spec.time_limit_s, max_retries=spec.max_retries)
        return cls(server, spec)

    def generate(self, request: TextRequest) -> TextReply:
        """Raises RequestRefusedError where the server would say the same again, else EngineError."""
        facts = self.facts()
        answer = wait_for(self.server.ask("chat/completions", chat_body(self.spec, request, facts)))
        try:
            if not 200 <= answer.status < 300:
                raise refusal(answer, self.spec)
            return chat_reply(answer, facts)
        except EngineError as error:
            raise type(error)(self.server.without_key(f"{self.server.base_url}: {error}")) from None

    @contextmanager
    def endpoint(self, request: TextRequest) -> Iterator[Endpoint]:
        """The server itself, with the task's key. It keeps no account by attempt and takes no settings: a program that
        asks there says itself how, and what it spends is not counted.
        """
        yield Endpoint(url=self.server.base_url, token=self.server.key or "none", model=self.spec.model, usage=Usage)

    def describe(self) -> EngineInfo:
        """Deterministic where the server is our own, in bitwise mode: others promise no more than their best effort.

        Raises EngineError where the server cannot be asked, or does not take the key.
        """
        facts = self.facts()
        return EngineInfo(
            kind="openai",
            model=self.spec.model,
            deterministic=facts.exactness == "bitwise",
            structured_output=holds_schemas(self.spec, facts),
            fingerprint=facts.fingerprint,
            concurrency=self.spec.num_at_once,
            reference=self.spec.model_dump_json(),
            details={
                "base_url": self.server.base_url,
                "server": "specdec serve" if facts.is_specdec else None,
                "exactness": facts.exactness,
            },
        )

    def facts(self) -> ServerFacts:
        """What the server says of itself, asked once. Raises EngineError where it cannot be asked."""
        with self._asking:
            if self._facts is None:
                answer = wait_for(self.server.ask("models"))
                if answer.status == 401:  # other refusals may be of the list alone
                    problem = refusal(answer, self.spec)
                    raise EngineError(self.server.without_key(f"{self.server.base_url}: {problem}"))
                self._facts = server_facts(answer)
            return self._facts
