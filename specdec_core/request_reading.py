"""What a request means to a loaded model: its texts as ids, its processors, its grammar."""

from __future__ import annotations

from collections.abc import Sequence

from specdec_core.errors import RequestError, in_field
from specdec_core.loading import LoadedModel
from specdec_core.sampling import LogitsPipeline
from specdec_core.stopping import StopChecker
from specdec_core.structured import GrammarConstraint, make_constraint
from specdec_core.types import GenerationRequest

__all__ = ["ReadRequest"]


class ReadRequest:
    """A request in ids. ``constraint`` is None where the text is free.

    Raises RequestError: the schema, regex or a word cannot be read, or ``request`` is of another type.
    """

    def __init__(self, request: GenerationRequest, model: LoadedModel) -> None:
        if not isinstance(request, GenerationRequest):
            raise RequestError(f"a GenerationRequest is needed, as GenerationRequest(prompt=...), not {request!r}")
        target, params = model.target, request.sampling
        self._model, self._params = model, params
        with in_field("prompt"):
            self.prompt_ids = _prompt_ids(request, model)
        self.eos_token_ids = tuple(sorted(model.tokenizer.eos_token_ids))
        with in_field("reference_texts"):
            self.reference_ids = tuple(tuple(model.tokenizer.encode(text)) for text in request.reference_texts)
        self.max_new_tokens = min(params.max_tokens, max(target.context_length - len(self.prompt_ids), 1))
        self.constraint: GrammarConstraint | None = None
        if request.structured is not None:
            with in_field("structured"):
                self.constraint = make_constraint(request.structured, model.tokenizer, target.vocab_size)
        with in_field("bad_words"):
            self.bad_word_ids = self._bad_word_ids(params.bad_words)
        self.pipeline = LogitsPipeline(
            params,
            self.prompt_ids,
            self.constraint,
            bad_word_ids=self.bad_word_ids,
            with_margins=target.geometry.exactness == "law",
        )

    def stopper(self) -> StopChecker:
        """What ends the text."""
        return StopChecker(
            decode=self._model.tokenizer.decode,
            max_tokens=self.max_new_tokens,
            eos_token_ids=self.eos_token_ids,
            stop=self._params.stop,
            stop_tokens=self._stop_tokens(self._params.stop),
            is_complete=None if self.constraint is None else self.constraint.is_complete,
        )

    def _stop_tokens(self, stop: Sequence[str]) -> dict[int, str]:
        """The stop strings that are special tokens: one id each, and no text when decoded."""
        tokenizer = self._model.tokenizer
        with in_field("stop"):
            ids_of = {text: tokenizer.encode(text) for text in stop}
        return {ids[0]: text for text, ids in ids_of.items() if len(ids) == 1 and not tokenizer.decode(ids)}

    def _bad_word_ids(self, words: Sequence[str]) -> list[tuple[int, ...]]:
        """The token sequences of each word as it starts a text and as it follows a space."""
        encode = self._model.tokenizer.encode
        ways = [(word.lstrip(" ") or word, " " + word.lstrip(" ")) for word in words]
        return sorted({ids for way in ways for text in way if (ids := tuple(encode(text)))})


def _prompt_ids(request: GenerationRequest, model: LoadedModel) -> tuple[int, ...]:
    if request.messages is not None:
        return tuple(model.tokenizer.encode_chat(request.messages))
    if request.prompt is not None:
        return tuple(model.tokenizer.encode(request.prompt, add_special_tokens=True))
    return tuple(request.prompt_token_ids or ())
