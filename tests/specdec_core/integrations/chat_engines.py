"""Engines for the chat model: one that says what it is told, in pieces, and the tiny Llama with room for a prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch

from specdec_core.engine import Engine
from specdec_core.errors import RequestError
from specdec_core.loading import LoadedModel
from specdec_core.metrics import DecodeStats, NumericsFingerprint
from specdec_core.types import FinishReason, GenerationChunk, GenerationOutput, GenerationRequest
from tests.specdec_core.grammar_tokenizer import SPELLED, GrammarTinyTokenizer
from tests.specdec_core.tiny_models import make_tiny_llama

FINGERPRINT = NumericsFingerprint("bitwise", 8, 64, 64, "float64", "cpu:test", 1, torch.__version__, "tiny")


class SayingEngine:
    """Says ``text``, or what a function of the request says, ``piece_length`` characters at a time.

    ``requests`` are those it got; ``num_closed`` counts its streams that are over, however they ended.
    """

    def __init__(
        self,
        text: str | Callable[[GenerationRequest], str],
        *,
        finish_reason: FinishReason = "stop",
        piece_length: int = 3,
    ) -> None:
        self.text, self.finish_reason, self.piece_length = text, finish_reason, piece_length
        self.requests: list[GenerationRequest] = []
        self.num_closed = 0

    def generate(self, request: GenerationRequest) -> GenerationOutput:
        *_, last = self.stream(request)
        assert last.output is not None
        return last.output

    def stream(self, request: GenerationRequest) -> Iterator[GenerationChunk]:
        self.requests.append(request)
        text = self.text if isinstance(self.text, str) else self.text(request)
        try:
            for start in range(0, len(text), self.piece_length):
                yield GenerationChunk(text[start : start + self.piece_length])
            stats = DecodeStats(num_prompt_tokens=7, num_cached_prompt_tokens=2, num_generated_tokens=5)
            stats.num_decode_passes, stats.num_draft_tokens, stats.num_accepted_tokens = 2, 4, 2
            output = GenerationOutput(text, (), self.finish_reason, None, (), stats, FINGERPRINT)
            yield GenerationChunk("", (), output)
        finally:
            self.num_closed += 1


class RoomyTokenizer(GrammarTinyTokenizer):
    """Any prompt: characters that the tiny vocabulary lacks are dots. Nothing else is different."""

    def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        known = "".join(char if char == " " or char in SPELLED else "." for char in text)
        return super().encode(known, add_special_tokens=add_special_tokens)

    def encode_chat(self, messages: Sequence[dict[str, str]]) -> list[int]:
        return self.encode(" ".join(f"{message['role']}: {message['content']}" for message in messages))


def make_chat_engine(drafter: str = "auto") -> Engine:
    """The tiny random Llama: it writes nonsense, but nonsense of the form that is asked for."""
    target = make_tiny_llama(width=16, narrow_widths=(4, 8), context_length=2048)
    device, dtype = target.network.device, target.network.dtype
    model = LoadedModel(target, RoomyTokenizer(), FINGERPRINT, device, dtype, target.geometry, ("for tests",), "tiny")
    return Engine(model, drafter=drafter)


class RefusingEngine:
    """Refuses every request."""

    def generate(self, request: GenerationRequest) -> GenerationOutput:
        raise RequestError("no room")

    def stream(self, request: GenerationRequest) -> Iterator[GenerationChunk]:
        raise RequestError("no room")
        yield
