"""Log probabilities of emitted tokens, in the target's own law."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

__all__ = ["TokenLogprobs", "token_logprobs"]


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """One emitted token: its log probability (nats), and the likeliest tokens there, best first.

    The law is the raw one: log-softmax of the target's logits as the model gave them, before temperature, penalties and
    filters. So the emitted token may be unlikely in it, and ``top`` may name a token that was banned.
    """

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()  # (token id, log probability); the emitted token is one of them if likely

    def to_dict(self) -> dict[str, Any]:
        """All fields, ready for JSON."""
        top = [{"token_id": token_id, "logprob": logprob} for token_id, logprob in self.top]
        return {"token_id": self.token_id, "logprob": self.logprob, "top": top}


def token_logprobs(logits: Tensor, token_id: int, num_top: int) -> TokenLogprobs:
    """Of ``token_id`` and the ``num_top`` likeliest tokens (all, where there are fewer), given ``logits`` [vocab].

    >>> import torch
    >>> token_logprobs(torch.zeros(4), 2, 0).logprob  # -log 4
    -1.3862943611198906
    """
    law = logits.double().log_softmax(dim=-1)
    top = law.topk(min(num_top, len(law)))
    return TokenLogprobs(
        token_id, float(law[token_id]), tuple(zip(top.indices.tolist(), top.values.tolist(), strict=True))
    )
