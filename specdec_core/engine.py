"""The engine: requests in, texts out. One request at a time."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Unpack

from specdec_core.controller import Controller, Policy
from specdec_core.decoder import Generation, decode
from specdec_core.drafters import DraftContext, Drafter, DraftMemory, make_drafter
from specdec_core.drafters.base import NUM_CONTEXT_TOKENS
from specdec_core.drafters.registry import DrafterChoice, check_drafter
from specdec_core.errors import RequestError
from specdec_core.goodput import Goodput
from specdec_core.loading import LoadedModel, LoadOptions, load_model
from specdec_core.metrics import NumericsFingerprint
from specdec_core.models.base import Exactness
from specdec_core.models.runner import LlamaTarget
from specdec_core.out_of_memory import saying_what_to_lower
from specdec_core.pass_costs import PassCosts
from specdec_core.request_reading import ReadRequest
from specdec_core.structured import ForcedDrafter
from specdec_core.types import GenerationChunk, GenerationOutput, GenerationRequest, Round
from specdec_core.verification import VERIFIERS, Verification
from specdec_core.verification_batched import verifier

__all__ = ["Engine", "EngineDescription", "load_engine"]

_PREFIX_CACHE_BYTES = 512 << 20


@dataclass(frozen=True, slots=True)
class EngineDescription:
    """What the engine runs on, and why."""

    model: str
    drafter: str
    num_speculative_tokens: int
    pass_widths: tuple[int, ...]  # rows that a decode pass may have; in law exactness any number up to the one here
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
            "pass_widths": list(self.pass_widths),
            "context_length": self.context_length,
            "vocab_size": self.vocab_size,
            "fingerprint": self.fingerprint.to_dict(),
            "reasons": list(self.reasons),
        }


class Engine:
    """A loaded model with a drafter.

    Threads wait for each other; a stream holds the model, for all engines around it, until it is exhausted or closed.
    ``policy`` decides what is drafted; by default ``Goodput``, whose costs are measured now, within a quarter of a
    second. What it learns stays from request to request and changes speed only (see ``specdec_core.goodput``).

    ``verification`` is ``match`` or, for a model loaded with ``exactness="law"``, ``rejection``. By rejection a request
    knows nothing of earlier ones, neither their texts nor what they taught the default policy: with its seed they came
    of the noise that it will meet.
    """

    def __init__(
        self,
        model: LoadedModel,
        *,
        drafter: DrafterChoice = "auto",
        num_speculative_tokens: int | None = None,
        policy: Policy | None = None,
        verification: Verification = "match",
    ) -> None:
        if num_speculative_tokens is not None and num_speculative_tokens < 0:
            raise RequestError(f"num_speculative_tokens must be at least 0, not {num_speculative_tokens!r}")
        _check_verification(verification, model.target.geometry.exactness)
        self.model = model
        self.verification: Verification = verification
        self.drafter = make_drafter(drafter, target_model=model)
        most = model.target.geometry.max_draft_tokens
        self.num_speculative_tokens = most if num_speculative_tokens is None else min(num_speculative_tokens, most)
        self.memory = DraftMemory()
        self._policy = policy
        self._costs = PassCosts(model.target.geometry)
        if policy is None and self.num_speculative_tokens > 0:
            with model.in_use.held():
                self._costs.calibrate(model.target)
        self.controller = self._controller(self.drafter)

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
        self,
        request: GenerationRequest,
        on_round: Callable[[Round], None] | None = None,
        before_chunk: Callable[[], None] = lambda: None,
    ) -> Generator[GenerationChunk, None, None]:
        """The text as it grows: a chunk after prefill and after every pass, the last one with the output.

        Closing the iterator cancels the request. ``on_round`` hears of every decode pass; ``before_chunk`` is called
        before each chunk of the prompt that is read, and may raise to cancel the request before there is any text.
        """
        with self.model.in_use.held(), closing(_rounds(generation := self._prepare(request))) as rounds:
            generation.before_chunk = before_chunk
            num_told = 0
            for round_ in rounds:
                if round_ is not None and on_round is not None:
                    on_round(round_)
                if not generation.stopper.finished:
                    yield (chunk := _chunk(generation, num_told))
                    num_told += len(chunk.token_ids)
            output = self._output(generation)
            self._remember(output.prompt_token_ids, output.token_ids)
            yield _chunk(generation, num_told, output)

    def remember(self, text: str) -> None:
        """Let later drafts follow ``text``, for example an answer found good elsewhere. No text depends on it.

        Every finished output is remembered anyway (``memory``, the oldest forgotten first).
        """
        self._remember((), self.model.tokenizer.encode(text))

    def describe(self) -> EngineDescription:
        """Model, drafter, geometry and numerics, with the reasons for what was chosen."""
        geometry = self.model.target.geometry
        return EngineDescription(
            model=self.model.name,
            drafter=self.drafter.name,
            num_speculative_tokens=self.num_speculative_tokens,
            pass_widths=geometry.widths if geometry.exactness == "bitwise" else (geometry.width,),
            context_length=self.model.target.context_length,
            vocab_size=self.model.target.vocab_size,
            fingerprint=self.fingerprint,
            reasons=self.model.reasons,
        )

    def _controller(self, drafter: Drafter) -> Controller:
        return Controller(drafter, self._policy or Goodput(self._costs))

    @property
    def fingerprint(self) -> NumericsFingerprint:
        """Everything the text depends on besides the request."""
        return replace(self.model.fingerprint, verification=self.verification)

    def _prepare(self, request: GenerationRequest) -> Generation:
        read = ReadRequest(request, self.model)
        by_match = self.verification == "match"
        controller = self.controller if by_match else self._controller(self.drafter)
        if read.constraint is not None and self.drafter.name != "none":  # plain decoding stays plain
            controller = self._controller(ForcedDrafter(self.drafter, read.constraint))
        return Generation(
            target=self.model.target,
            controller=controller,
            context=DraftContext(
                prompt_ids=read.prompt_ids,
                reference_ids=read.reference_ids,
                pipeline=read.pipeline,
                eos_token_ids=read.eos_token_ids,
                memory=self.memory if by_match else None,
                verification=self.verification,
            ),
            stopper=read.stopper(),
            max_draft_tokens=self.num_speculative_tokens,
            max_new_tokens=read.max_new_tokens,
            verify=verifier(self.verification, self.model.device),
        )

    def _remember(self, prompt_ids: Sequence[int], token_ids: Sequence[int]) -> None:
        """The end of the prompt makes an output's first token one that can be drafted."""
        if token_ids:
            self.memory.add((*prompt_ids[-NUM_CONTEXT_TOKENS:], *token_ids))

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


def _chunk(generation: Generation, num_told: int, output: GenerationOutput | None = None) -> GenerationChunk:
    """What is new after the first ``num_told`` tokens."""
    new_ids = tuple(generation.generated_ids[num_told:])
    return GenerationChunk(generation.stopper.take_text(), new_ids, output, tuple(generation.logprobs[num_told:]))


def _rounds(generation: Generation) -> Generator[Round | None, None, None]:
    with saying_what_to_lower("generating"), closing(decode(generation)) as rounds:
        yield from rounds


def load_engine(
    reference: str,
    *,
    drafter: DrafterChoice = "auto",
    num_speculative_tokens: int | None = None,
    verification: Verification = "match",
    prefix_cache_bytes: int = _PREFIX_CACHE_BYTES,
    **options: Unpack[LoadOptions],
) -> Engine:
    """Load a model (embedded name, local folder, GGUF file or hub id) and put an engine around it.

    Args:
        reference: As for :func:`specdec_core.loading.load_model`.
        drafter: ``auto``, ``none``, a registered name, ``model:<reference>`` (a smaller model of the same vocabulary),
            a Drafter, or a list of them.
        num_speculative_tokens: The longest draft; by default, and at most, what a pass can verify (its width less one).
        verification: ``match``, or ``rejection``: exactness is law then.
        prefix_cache_bytes: Memory for keys and values of prompt beginnings: prompts that begin alike read them once.
            0 reads every prompt whole.
        options: ``device``, ``dtype``, ``exactness``, ``context_length``, ``width``, ``quantize``: see ``load_model``.

    Raises:
        ModelLoadError, ExactnessError, OutOfMemoryError, RequestError: see ``load_model``.
    """
    check_drafter(drafter)  # a wrong name is said before a model is fetched and loaded
    asked = options.get("exactness")
    _check_verification(verification, asked)
    if prefix_cache_bytes < 0:
        raise RequestError(f"prefix_cache_bytes must be at least 0, not {prefix_cache_bytes!r}")
    if verification == "rejection":
        options["exactness"] = "law"
    model = load_model(reference, **options)
    if verification == "rejection" and asked is None:
        others = [reason for reason in model.reasons if reason != "exactness law: as asked"]  # nobody did
        model = replace(model, reasons=(*others, "exactness law: rejection verification promises no more"))
    if isinstance(model.target, LlamaTarget):  # other models keep their own cache
        model.target.reuse_prefixes(prefix_cache_bytes)
    return Engine(model, drafter=drafter, num_speculative_tokens=num_speculative_tokens, verification=verification)
