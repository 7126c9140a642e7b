"""The engine: requests in, texts out. One request at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from specdec_core.decoder import Generation, decode
from specdec_core.drafters import DraftContext, make_drafter
from specdec_core.drafters.registry import DrafterChoice
from specdec_core.errors import RequestError
from specdec_core.loading import LoadedModel, load_model
from specdec_core.metrics import NumericsFingerprint
from specdec_core.models.base import Exactness
from specdec_core.sampling import LogitsPipeline
from specdec_core.stopping import StopChecker
from specdec_core.types import GenerationChunk, GenerationOutput, GenerationRequest, Round
from specdec_core.verification import VERIFIERS, Verification

__all__ = ["Engine", "EngineDescription", "load_engine"]


@dataclass(frozen=True, slots=True)
class EngineDescription:
    """What the engine runs on, and why."""

    model: str
    drafter: str
    num_speculative_tokens: int
    context_length: int
    vocab_size: int
    fingerprint: NumericsFingerprint
    reasons: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """All fields, ready for JSON."""
        return {
            "model": self.model,
            "drafter": self.drafter,
            "num_speculative_tokens": self.num_speculative_tokens,
            "context_length": self.context_length,
            "vocab_size": self.vocab_size,
            "fingerprint": self.fingerprint.to_dict(),
            "reasons": list(self.reasons),
        }


class Engine:
    """A loaded model with a drafter.

    Threads wait for each other; a stream holds the engine until it is exhausted or closed. ``verification`` is
    ``match`` or, for a model loaded with ``exactness="law"``, ``rejection``.
    """

    def __init__(
        self,
        model: LoadedModel,
        *,
        drafter: DrafterChoice = "auto",
        num_speculative_tokens: int | None = None,
        verification: Verification = "match",
    ) -> None:
        if num_speculative_tokens is not None and num_speculative_tokens < 0:
            raise RequestError(f"num_speculative_tokens must be at least 0, not {num_speculative_tokens!r}")
        _check_verification(verification, model.target.geometry.exactness)
        self.model = model
        self.verification: Verification = verification
        self.drafter = make_drafter(drafter)
        most = model.target.geometry.max_draft_tokens
        self.num_speculative_tokens = most if num_speculative_tokens is None else min(num_speculative_tokens, most)
        self._lock = threading.Lock()
        self._owner: int | None = None

    def generate(self, request: GenerationRequest) -> GenerationOutput:
        """Run one request to its end.

        Raises RequestError and its kinds for a request that cannot be served; the engine stays usable.
        """
        output: GenerationOutput | None = None
        for chunk in self.stream(request):
            output = chunk.output
        assert output is not None, "a stream ends with its output"
        return output

    def stream(
        self, request: GenerationRequest, on_round: Callable[[Round], None] | None = None
    ) -> Iterator[GenerationChunk]:
        """The text as it grows: a chunk after prefill and after every pass, the last one with the output.

        Closing the iterator cancels the request. ``on_round`` hears of every decode pass.
        """
        with self._held(), closing(decode(generation := self._prepare(request))) as rounds:
            num_told = 0
            for round_ in rounds:
                if round_ is not None and on_round is not None:
                    on_round(round_)
                if not generation.stopper.finished:
                    new_ids = tuple(generation.generated_ids[num_told:])
                    num_told += len(new_ids)
                    yield GenerationChunk(generation.stopper.take_text(), new_ids)
            new_ids = tuple(generation.generated_ids[num_told:])
            yield GenerationChunk(generation.stopper.take_text(), new_ids, self._output(generation))

    def describe(self) -> EngineDescription:
        """Model, drafter, geometry and numerics, with the reasons for what was chosen."""
        return EngineDescription(
            model=self.model.name,
            drafter=self.drafter.name,
            num_speculative_tokens=self.num_speculative_tokens,
            context_length=self.model.target.context_length,
            vocab_size=self.model.target.vocab_size,
            fingerprint=self.fingerprint,
            reasons=self.model.reasons,
        )

    @property
    def fingerprint(self) -> NumericsFingerprint:
        """Everything the text depends on besides the request."""
        return replace(self.model.fingerprint, verification=self.verification)

    def pipeline_of(self, request: GenerationRequest) -> LogitsPipeline:
        """The processors of a request, its bad words tokenised."""
        params = request.sampling
        return LogitsPipeline(
            params,
            self._prompt_ids(request),
            bad_word_ids=self._bad_word_ids(params.bad_words),
            with_margins=self.model.target.geometry.exactness == "law",
        )

    @contextmanager
    def _held(self) -> Iterator[None]:
        """The engine, for this request alone."""
        if self._owner == threading.get_ident():
            raise RequestError("a stream of this engine is still open in this thread: exhaust it or close it first")
        with self._lock:
            try:
                self._owner = threading.get_ident()
                yield
            finally:
                self._owner = None

    def _prepare(self, request: GenerationRequest) -> Generation:
        tokenizer, target, params = self.model.tokenizer, self.model.target, request.sampling
        prompt_ids = self._prompt_ids(request)
        eos_token_ids = tuple(sorted(tokenizer.eos_token_ids))
        max_new_tokens = min(params.max_tokens, max(target.context_length - len(prompt_ids), 1))
        return Generation(
            target=target,
            drafter=self.drafter,
            context=DraftContext(
                prompt_ids=prompt_ids,
                reference_ids=tuple(tuple(tokenizer.encode(text)) for text in request.reference_texts),
                pipeline=self.pipeline_of(request),
                eos_token_ids=eos_token_ids,
                verification=self.verification,
            ),
            stopper=StopChecker(
                decode=tokenizer.decode,
                max_tokens=max_new_tokens,
                eos_token_ids=eos_token_ids,
                stop=params.stop,
                stop_tokens=self._stop_tokens(params.stop),
            ),
            max_draft_tokens=self.num_speculative_tokens,
            max_new_tokens=max_new_tokens,
            verify=VERIFIERS[self.verification],
        )

    def _prompt_ids(self, request: GenerationRequest) -> tuple[int, ...]:
        if request.messages is not None:
            return tuple(self.model.tokenizer.encode_chat(request.messages))
        if request.prompt is not None:
            return tuple(self.model.tokenizer.encode(request.prompt, add_special_tokens=True))
        return tuple(request.prompt_token_ids or ())

    def _stop_tokens(self, stop: Sequence[str]) -> dict[int, str]:
        """The stop strings that are special tokens: one id each, and no text when decoded."""
        tokenizer = self.model.tokenizer
        ids_of = {text: tokenizer.encode(text) for text in stop}
        return {ids[0]: text for text, ids in ids_of.items() if len(ids) == 1 and not tokenizer.decode(ids)}

    def _bad_word_ids(self, words: Sequence[str]) -> list[tuple[int, ...]]:
        """The token sequences of each word as it starts a text and as it follows a space."""
        encode = self.model.tokenizer.encode
        ways = [(word.lstrip(" ") or word, " " + word.lstrip(" ")) for word in words]
        return sorted({ids for way in ways for text in way if (ids := tuple(encode(text)))})

    def _output(self, generation: Generation) -> GenerationOutput:
        stopper = generation.stopper
        assert stopper.finish_reason is not None, "decode ends when the text is over"
        return GenerationOutput(
            text=stopper.text,
            token_ids=tuple(stopper.token_ids),
            finish_reason=stopper.finish_reason,
            stop_string=stopper.stop_string,
            prompt_token_ids=generation.prompt_ids,
            stats=generation.stats,
            fingerprint=self.fingerprint,
            logprobs=None if generation.pipeline.params.logprobs is None else tuple(generation.logprobs),
        )


def _check_verification(verification: str, exactness: Exactness | None) -> None:
    if verification not in VERIFIERS:
        raise RequestError(f"unknown verification {verification!r}; known: {', '.join(sorted(VERIFIERS))}")
    if verification == "rejection" and exactness == "bitwise":
        raise RequestError(
            'verification="rejection" keeps the law of plain decoding, not its text, so it cannot be had with '
            'exactness="bitwise": load the model with exactness="law", or verify by match'
        )


def load_engine(
    reference: str,
    *,
    drafter: DrafterChoice = "auto",
    num_speculative_tokens: int | None = None,
    exactness: Exactness | None = None,
    verification: Verification = "match",
    device: str = "auto",
    dtype: str = "auto",
    context_length: int | None = None,
) -> Engine:
    """Load a model (embedded name, local folder, GGUF file or hub id) and put an engine around it.

    ``drafter`` is ``auto``, ``none``, a registered name, a Drafter, or a list of them. ``num_speculative_tokens`` is
    the longest draft; by default, and at most, as long as a pass allows (its width less one). ``exactness`` defaults
    to the hardware table's, and to law under ``verification="rejection"``, which promises no more than that.

    Raises ModelLoadError, ExactnessError, RequestError.
    """
    drafter = make_drafter(drafter)  # a wrong name is said before a model is fetched and loaded
    _check_verification(verification, exactness)
    settled: Exactness | None = "law" if verification == "rejection" else exactness
    model = load_model(reference, device=device, dtype=dtype, exactness=settled, context_length=context_length)
    if settled != exactness:
        model = replace(model, reasons=(*model.reasons, "exactness law: rejection verification promises no more"))
    return Engine(model, drafter=drafter, num_speculative_tokens=num_speculative_tokens, verification=verification)
