"""TableModel: a target whose law is a table, so that the law of an output can be enumerated exactly."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from specdec_core.errors import CacheRollbackError
from specdec_core.models.base import Geometry, check_pass, check_prompt
from specdec_core.sampling import LogitsPipeline, SamplingParams

__all__ = ["TableModel"]


class TableModel:
    """An order-1 language model: row i of ``logits`` [vocab, vocab] (float64) follows token i.

    >>> model = TableModel.random(vocab_size=4, seed=1)
    >>> round(sum(model.joint_law([0], SamplingParams(temperature=1.0), length=2).values()), 9)
    1.0
    """

    def __init__(self, logits: Tensor, *, context_length: int = 512, width: int = 16) -> None:
        self._logits = logits.double()
        self._token_ids: list[int] = []
        self.vocab_size = int(logits.shape[0])
        self.context_length = context_length
        self.geometry = Geometry("bitwise", width=width)
        self.num_cached_prompt_tokens = 0

    @classmethod
    def random(cls, vocab_size: int, seed: int, *, scale: float = 1.5, **options: int) -> TableModel:
        """A table of normal logits."""
        generator = torch.Generator().manual_seed(seed)
        table = scale * torch.randn(vocab_size, vocab_size, generator=generator, dtype=torch.float64)
        return cls(table, **options)

    @property
    def cache_length(self) -> int:
        """Tokens read so far."""
        return len(self._token_ids)

    def prefill(self, token_ids: Sequence[int], before_chunk: Callable[[], None] = lambda: None) -> Tensor:
        """Start over with ``token_ids``; logits after the last, [vocab]. Raises as ``check_prompt``."""
        check_prompt(self, token_ids)
        self._token_ids = []
        before_chunk()
        return self._read(token_ids)[-1]

    def decode(self, token_ids: Sequence[int]) -> Tensor:
        """Logits after each token, [num_tokens, vocab]. Raises as ``check_pass``."""
        check_pass(self, token_ids)
        return self._read(token_ids)

    def rollback(self, length: int) -> None:
        """Keep the first ``length`` tokens."""
        if not 0 <= length <= len(self._token_ids):
            raise CacheRollbackError(f"cannot keep {length} of {len(self._token_ids)} tokens")
        del self._token_ids[length:]

    def joint_law(
        self, prompt_ids: Sequence[int], sampling: SamplingParams | LogitsPipeline, length: int
    ) -> dict[tuple[int, ...], float]:
        """Probability of every continuation of ``length`` tokens, by enumeration with the request's own processors."""
        pipeline = sampling if isinstance(sampling, LogitsPipeline) else LogitsPipeline(sampling, prompt_ids)
        law: dict[tuple[int, ...], float] = {}
        for tokens in itertools.product(range(self.vocab_size), repeat=length):
            probability = 1.0
            for index, token in enumerate(tokens):
                previous = tokens[index - 1] if index else prompt_ids[-1]
                if probability > 0:  # after an impossible token there may be nothing left to choose
                    probability *= float(pipeline.law(self._logits[previous], tokens[:index])[token])
            law[tokens] = probability
        return law

    def _read(self, token_ids: Sequence[int]) -> Tensor:
        self._token_ids.extend(token_ids)
        return self._logits[list(token_ids)]
