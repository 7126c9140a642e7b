"""Every other causal language model: transformers' own forward and cache behind the TargetModel protocol.

Law exactness only: the shapes of its passes, and with them its bits, follow the number of tokens. What a cache can take
back differs, and some corrupt it silently: a sliding window has dropped the tokens that a rollback needs, a recurrent
state (Mamba, linear attention) has mixed all tokens into one. So the way back follows what the cache says of itself,
and ``settle_target`` tries at load that the model goes on, and back, to where a fresh one would be:

- ``crop``: transformers cuts the last tokens off exactly.
- ``restore``: the state before a pass is kept; tokens accepted since are read again together with the next ones.
- ``reread``: nothing is kept, passes hold one token, and a rollback reads the sequence anew. No drafts are verified.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from specdec_core.errors import (
    CacheRollbackError,
    ModelLoadError,
)
from specdec_core.models.base import Geometry, check_pass, check_prompt

__all__ = ["TransformersTarget", "WayBack", "settle_target"]

WayBack = Literal["crop", "restore", "reread"]

_CACHE_PARAMETERS = ("past_key_values", "cache", "cache_params")
_PREFILL_CHUNK = 512
_TRIAL_IDS = (5, 11, 7, 2, 13, 3, 17, 8)
_TRIAL_LENGTH = 16
_TOLERANCES = {torch.float64: 1e-3, torch.float32: 1e-2, torch.bfloat16: 0.2, torch.float16: 0.2}  # corruption is ~1


class TransformersTarget:
    """One sequence through a transformers model. See :class:`specdec_core.models.base.TargetModel`.

    Args:
        model: A loaded ``...ForCausalLM``, in eval mode.
        way_back: How tokens are taken back.
        width: Rows of the widest decode pass; 1 where the way back is ``reread``.
        context_length: The most tokens, prompt and output together.

    Raises:
        ModelLoadError: the model keeps its state in nothing that transformers calls a cache.
    """

    def __init__(self, model: Any, way_back: WayBack, *, width: int, context_length: int) -> None:
        self.model = model
        self.way_back: WayBack = way_back
        self._cache_parameter, self._keeps_logits = _parameters(model)
        single = way_back == "reread"
        chunk = context_length if single else min(_PREFILL_CHUNK, context_length)
        self._geometry = Geometry("law", 1 if single else width, chunk=chunk, kv_block=1)
        self._context_length = context_length
        self._vocab_size = _num_ids(model)
        self._token_ids: list[int] = []  # the sequence; the cache has read the first _num_read of it
        self._num_read = 0
        self._floor = 0  # the shortest length that a rollback reaches without reading anew
        self.num_cached_prompt_tokens = 0  # every prompt is read whole
        self._saved: list[dict[str, Any]] = []  # the layers as they were at _floor
        self._start_over()

    @property
    def vocab_size(self) -> int:
        """Ids that can be read and written: rows of the embedding or of the head, whichever are fewer."""
        return self._vocab_size

    @property
    def context_length(self) -> int:
        """The most tokens, prompt and output together."""
        return self._context_length

    @property
    def geometry(self) -> Geometry:
        """Law exactness; the chunk is the whole context for a model that must read a prompt in one pass."""
        return self._geometry

    @property
    def cache_length(self) -> int:
        """Tokens of the sequence."""
        return len(self._token_ids)

    @torch.inference_mode()
    def prefill(self, token_ids: Sequence[int], before_chunk: Callable[[], None] = lambda: None) -> Tensor:
        """Start a new sequence and read ``token_ids``; the logits after the last, [vocab].

        ``before_chunk`` is called before each chunk, and may raise to end the reading.

        Raises as :func:`specdec_core.models.base.check_prompt`.
        """
        check_prompt(self, token_ids)
        self._start_over()
        self._token_ids = list(token_ids)
        return self._catch_up(before_chunk)

    @torch.inference_mode()
    def decode(self, token_ids: Sequence[int]) -> Tensor:
        """One pass over the next 1 to ``geometry.width`` tokens; the logits after each, [num_tokens, vocab].

        Raises as :func:`specdec_core.models.base.check_pass`.
        """
        check_pass(self, token_ids)
        num_tokens, width = len(token_ids), self._geometry.width
        if len(self._token_ids) - self._num_read + num_tokens > width:
            self._catch_up()
        num_read = self._num_read
        saved = _copy_states(self._cache) if self.way_back == "restore" else []
        logits = self._pass([*self._token_ids[num_read:], *token_ids], num_tokens)
        self._token_ids.extend(token_ids)
        if saved:
            self._saved, self._floor = saved, num_read
        return logits

    @torch.inference_mode()
    def rollback(self, length: int) -> None:
        """Keep the first ``length`` tokens. Raises CacheRollbackError outside 0..cache_length."""
        if not 0 <= length <= len(self._token_ids):
            raise CacheRollbackError(f"cannot roll back to {length!r} tokens: the cache holds {len(self._token_ids)}")
        del self._token_ids[length:]
        if length < self._floor:
            self._start_over()
        elif self.way_back == "crop":
            self._crop(max(self._num_read - length, 0))
        elif length < self._num_read:
            _set_states(self._cache, self._saved)
            self._num_read = self._floor

    def _start_over(self) -> None:
        """Forget what was read. The tokens stay, and the next pass reads them."""
        self._cache = DynamicCache(config=self.model.config)
        if self.way_back == "crop":
            self._cache.activate_past_recording()
        self._saved = []
        self._num_read = self._floor = 0

    def _catch_up(self, before_chunk: Callable[[], None] = lambda: None) -> Tensor:
        """Read what was not read yet, in chunks; the logits after the last token, [vocab]."""
        while self._num_read < len(self._token_ids):
            before_chunk()
            num_tokens = 1 if self._num_read and self.way_back == "reread" else self._geometry.chunk
            logits = self._pass(self._token_ids[self._num_read :][:num_tokens], 1)
            if self.way_back == "crop":
                self._crop(0)
        return logits[-1]

    def _pass(self, token_ids: Sequence[int], num_logits: int) -> Tensor:
        """Read ``token_ids`` into the cache; logits after the last ``num_logits`` of them."""
        row = torch.tensor([token_ids], dtype=torch.int64, device=self.model.device)
        options: dict[str, Any] = {"logits_to_keep": num_logits} if self._keeps_logits else {}
        try:
            output = self.model(input_ids=row, use_cache=True, **{self._cache_parameter: self._cache}, **options)
        except BaseException:
            self._start_over()  # some layers may have read the tokens and others not
            raise
        self._num_read += len(token_ids)
        if self.way_back != "crop":
            self._floor = self._num_read
        logits: Tensor = output.logits[0, -num_logits:, : self._vocab_size]
        return logits

    def _crop(self, num_tokens: int) -> None:
        """Take the last tokens out of the cache. 0 also lets layers of fixed size drop what they no longer need."""
        if not self._num_read:
            return
        self._cache.crop(-num_tokens)
        self._num_read -= num_tokens
        if any(hasattr(layer, "activate_past_recording") for layer in self._cache.layers):
            self._floor = self._num_read


def settle_target(model: Any, *, width: int, context_length: int) -> TransformersTarget:
    """The target with the best way back that stands a trial: it goes on, and back, to where a fresh one would be.

    Some models start over with every pass of several tokens and say nothing (transformers 5.24: Mamba, Jamba):
    theirs is ``reread``. What a sliding window drops lies beyond a short trial; there the layers' own word counts.

    Raises:
        ModelLoadError: no way back stands the trial, the model raises, or its logits are not finite.
    """
    ways: tuple[WayBack, ...] = ("crop", "restore", "reread")
    try:
        for way_back in ways:
            if _stands_trial(TransformersTarget(model, way_back, width=width, context_length=_TRIAL_LENGTH)):
                return TransformersTarget(model, way_back, width=width, context_length=context_length)
    except (RuntimeError, ValueError, TypeError, AttributeError, NotImplementedError) as error:
        raise ModelLoadError(
            f"{type(model).__name__} cannot decode with a cache: {type(error).__name__}: {error}"
        ) from error
    raise ModelLoadError(
        f"{type(model).__name__} computes other logits with its cache than without, even token by token: it is not"
        " supported"
    )


@torch.inference_mode()
def _stands_trial(target: TransformersTarget) -> bool:
    ids = [token_id % target.vocab_size for token_id in _TRIAL_IDS]
    dtype = target.model.dtype
    expected = target.model(input_ids=torch.tensor([ids], device=target.model.device)).logits[0, :, : target.vocab_size]
    if not expected.isfinite().all():
        raise ModelLoadError(f"the model's logits are not finite in {dtype}: try dtype float32, or check the weights")
    step = min(3, target.geometry.width)
    rows = [target.prefill(ids[:2])[None]]
    if target.way_back == "crop" and not target._cache.is_croppable:
        return False
    while target.cache_length < len(ids):
        start = target.cache_length
        if target.geometry.width > 1:
            target.decode([ids[0]] * step)  # a draft that is refused
            target.rollback(start)
        rows.append(target.decode(ids[start : start + step]))
    return _distance(torch.cat(rows), expected[1:]) < _TOLERANCES.get(dtype, 0.2)


def _distance(logits: Tensor, expected: Tensor) -> float:
    """Relative, of what softmax sees: the mean of a row is nothing to it. NaN where logits are NaN."""
    logits, expected = (rows.double() - rows.double().mean(dim=-1, keepdim=True) for rows in (logits, expected))
    return float((logits - expected).norm() / expected.norm())


def _parameters(model: Any) -> tuple[str, bool]:
    """(name of the forward's cache parameter, whether it can keep to the last logits)."""
    names = inspect.signature(model.forward).parameters
    cache = next((name for name in _CACHE_PARAMETERS if name in names), None)
    if cache is None:
        raise ModelLoadError(
            f"{type(model).__name__} keeps its state in nothing that transformers calls a cache, so drafts could not be"
            " taken back: it is not supported"
        )
    return cache, "logits_to_keep" in names


def _num_ids(model: Any) -> int:
    embedding, head = model.get_input_embeddings(), model.get_output_embeddings()
    return min(int(module.weight.shape[0]) for module in (embedding, head) if module is not None)


def _copy_states(cache: DynamicCache) -> list[dict[str, Any]]:
    """What the layers hold. Recurrent states change in place and are copied; keys and values grow into new tensors."""
    return [
        {
            name: value if isinstance(layer, DynamicLayer) and name in ("keys", "values") else _copy(value)
            for name, value in vars(layer).items()
        }
        for layer in cache.layers
    ]


def _copy(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.clone()
    return {key: _copy(item) for key, item in value.items()} if isinstance(value, dict) else value


def _set_states(cache: DynamicCache, states: Sequence[dict[str, Any]]) -> None:
    for layer, state in zip(cache.layers, states, strict=True):
        vars(layer).clear()
        vars(layer).update(state)
