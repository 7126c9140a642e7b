"""Drafts from a smaller model with the same vocabulary (Leviathan et al. 2023, Chen et al. 2023).

In match mode it draws with the target's own noise (Gumbel coupling: Daliri et al. 2024, arXiv 2408.07978), so it often
draws what the target draws. In rejection mode it draws with noise of its own and says from which law.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specdec_core.checkpoint import read_config
from specdec_core.drafters.base import DraftContext
from specdec_core.errors import ModelLoadError, RequestError, VocabularyMismatchError
from specdec_core.loading import LoadedModel, fetch, load_model
from specdec_core.models.base import TargetModel
from specdec_core.noise import draft_stream
from specdec_core.tokenizer import Tokenizer
from specdec_core.types import Draft

__all__ = ["ModelDrafter", "load_model_drafter", "num_shared_tokens"]

_NUM_NAMED = 3  # differing tokens that an error names


class ModelDrafter:
    """Draws each token from ``model``, given the text and its own draft so far.

    The model reads lazily: what was emitted since its last draft, whoever drafted it, is caught up in passes as wide
    as the model allows (one, for all that a single round can emit). After a rejection its cache rolls back to what
    stands; after a fully accepted draft it still reads the last token, which it drafted and never saw. Where the text
    does not fit its context or its vocabulary it is silent.

    A draft ends behind a token that makes the whole path less likely than ``min_probability``. The token itself stays:
    dropping a drawn token for its value would bend the law of rejection mode.
    """

    def __init__(
        self,
        model: TargetModel,
        *,
        vocab_size: int,
        num_tokens: int | None = None,
        name: str = "model",
        min_probability: float = 0.3,
    ) -> None:
        """
        Args:
            model: The drafting model, not used by anybody else.
            vocab_size: The target's, which the laws are over.
            num_tokens: Ids that mean the same to both models; by default all that both have.
            name: The source of its drafts.
            min_probability: Where a draft ends, by the drafter's own law.
        """
        self.name = name
        self._model = model
        self._vocab_size = vocab_size
        self._num_tokens = min(vocab_size, model.vocab_size if num_tokens is None else num_tokens)
        self._min_probability = min_probability
        self._context: DraftContext | None = None
        self._text: list[int] = []
        self._num_prompt = 0
        self._readable = True  # every id lies within the model's vocabulary
        self._read: list[int] = []  # what the model's cache holds
        self._num_sure = 0  # so many of them are the text's: it only grows

    def begin(self, context: DraftContext) -> None:
        """Note the prompt; the model reads it when the first draft is asked for."""
        self.end()
        self._context = context
        self.observe(context.prompt_ids)
        self._num_prompt = len(context.prompt_ids)

    def propose(self, max_tokens: int) -> Draft:
        """Up to ``max_tokens`` tokens of the model's own; none where the text is beyond its context or vocabulary."""
        num_tokens = min(max_tokens, self._model.context_length - len(self._text))
        if self._context is None or num_tokens < 1 or not self._readable:
            return Draft(source=self.name)
        draft = _Draws(self._context, self._text[self._num_prompt :])
        logits = self._catch_up()
        while True:
            found = draft.add(self._over_targets_vocabulary(logits))
            if not found or len(draft.token_ids) == num_tokens or draft.path < self._min_probability:
                return draft.finish(self.name)
            logits = self._pass(draft.token_ids[-1:])

    def observe(self, token_ids: Sequence[int]) -> None:
        """Note what was emitted."""
        self._text.extend(token_ids)
        self._readable = self._readable and max(token_ids, default=0) < self._model.vocab_size

    def end(self) -> None:
        """Forget the request; the next one prefills a cache that is cleared."""
        self._context, self._text, self._num_prompt, self._readable = None, [], 0, True
        self._read, self._num_sure = [], 0

    def _catch_up(self) -> Tensor:
        """Read what stands and was not read; logits after the last token, [vocab]. The last one is always read anew."""
        num_kept, num_most = self._num_sure, min(len(self._read), len(self._text) - 1)
        while num_kept < num_most and self._read[num_kept] == self._text[num_kept]:
            num_kept += 1
        self._num_sure = len(self._text) - 1
        if not self._read:
            self._read = list(self._text)
            return self._model.prefill(self._text)
        self._model.rollback(num_kept)
        del self._read[num_kept:]
        while num_kept < len(self._text):
            end = num_kept + self._model.geometry.num_tokens_from(num_kept)
            logits = self._pass(self._text[num_kept:end])
            num_kept = end
        return logits

    def _pass(self, token_ids: Sequence[int]) -> Tensor:
        logits = self._model.decode(token_ids)[-1]
        self._read.extend(token_ids)
        return logits

    def _over_targets_vocabulary(self, logits: Tensor) -> Tensor:
        """[vocab of the model] -> [vocab of the target]; what both do not share cannot be drawn."""
        padded = logits.new_full((self._vocab_size,), -torch.inf)
        padded[: self._num_tokens] = logits[: self._num_tokens]
        return padded


class _Draws:
    """One draft in the making."""

    def __init__(self, context: DraftContext, generated_ids: list[int]) -> None:
        self.token_ids: list[int] = []
        self.path = 1.0  # probability of the whole draft under the drafter's law
        self._pipeline = context.pipeline
        self._with_law = context.verification == "rejection" and not context.pipeline.params.greedy
        self._prefix = generated_ids
        self._stream = draft_stream(len(generated_ids))
        self._laws: list[Tensor] = []

    def add(self, logits: Tensor) -> bool:
        """Draw the next token from the drafter's logits, [vocab of the target]; False where none of its own may follow.

        A grammar or a ban can leave only tokens that the drafter does not share. That is no fault of the request.
        """
        processed = self._pipeline.process(logits, self._prefix)
        if torch.isfinite(logits.max()) and not torch.isfinite(processed).any():
            return False
        law = processed.softmax(dim=-1)
        if self._with_law:
            token_id = self._pipeline.draw(law, len(self._prefix), self._stream)
            self._laws.append(law)
        else:
            token_id = self._pipeline.choose(logits, self._prefix)
        self.token_ids.append(token_id)
        self._prefix.append(token_id)
        self.path *= float(law[token_id])
        return True

    def finish(self, source: str) -> Draft:
        """The draft; with the laws where rejection verification needs them."""
        return Draft(tuple(self.token_ids), source, torch.stack(self._laws) if self._laws else None)


def num_shared_tokens(draft: Tokenizer, target: Tokenizer) -> int:
    """How many ids mean the same to both: all that the smaller one has, compared by text and not by size.

    Raises VocabularyMismatchError that names the first ids that differ.
    """
    num_tokens = min(draft.vocab_size, target.vocab_size)
    differing: list[str] = []
    for token_id in range(num_tokens):
        ours, theirs = draft.token_text(token_id), target.token_text(token_id)
        if ours != theirs:
            differing.append(f"id {token_id} is {ours!r} to the drafter and {theirs!r} to the target")
            if len(differing) == _NUM_NAMED:
                break
    if differing:
        raise VocabularyMismatchError(
            f"the vocabularies differ, so the model cannot draft for this target: {'; '.join(differing)}"
        )
    return num_tokens


def load_model_drafter(reference: str, target_model: LoadedModel | None) -> ModelDrafter:
    """Load a drafting model for ``target_model``, on its device and in its dtype.

    Raises ModelLoadError, VocabularyMismatchError, and RequestError where there is no target to draft for.
    """
    if target_model is None:
        raise RequestError(
            f"drafter 'model:{reference}' needs the target it drafts for: give make_drafter target_model"
        )
    model = load_model(
        reference,
        device=str(target_model.device),
        dtype=str(target_model.dtype).removeprefix("torch."),
        exactness="law",  # its bits matter to nobody
        context_length=_context_length(reference, target_model),
    )
    return ModelDrafter(
        model.target,
        vocab_size=target_model.target.vocab_size,
        num_tokens=num_shared_tokens(model.tokenizer, target_model.tokenizer),
        name=f"model:{model.name}",
    )


def _context_length(reference: str, target_model: LoadedModel) -> int | None:
    """What both models can read; None leaves a model that runs on transformers' forward its own length."""
    try:
        config = read_config(fetch(reference))
    except ModelLoadError:
        return None
    own = min(config.max_position_embeddings, config.sliding_window or config.max_position_embeddings)
    return min(target_model.target.context_length, own)
