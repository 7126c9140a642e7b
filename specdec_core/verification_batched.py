"""Match verification for devices where every read of a value waits for the device: one read per round.

``verify_match`` chooses row by row and stops at the first mismatch; each choice is a value read, and on CUDA each read
waits for all that was queued. Here every row is chosen at once, as if the draft before it stood, and the choices are
read together. Rows behind the first mismatch were computed for nothing: their draft prefix is wrong. The ones before it
saw the same prefix as there, so the verdict is the same. (Top-p still reads values of its own in every row.)
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specdec_core.errors import RequestError
from specdec_core.noise import position_noise
from specdec_core.sampling import LogitsPipeline
from specdec_core.sequences import common_length
from specdec_core.types import Draft
from specdec_core.verification import VERIFIERS, Verdict, Verification, Verify, verify_match

__all__ = ["choose_rows", "lowest_argmax", "verifier", "verify_match_batched"]


def verify_match_batched(
    logits: Tensor, draft: Draft, pipeline: LogitsPipeline, generated_ids: Sequence[int]
) -> Verdict:
    """The verdict of :func:`specdec_core.verification.verify_match` with one copy from the device.

    Args:
        logits: [num_draft + 1, vocab], the target's after ``generated_ids`` and the first i draft tokens.
        draft: What the pass verified.
        pipeline: The request's processors.
        generated_ids: Emitted before this round.

    Raises:
        RequestError: the logits of a row that counts are not finite.
    """
    if pipeline.constrained or pipeline.with_margins:
        # a grammar need not answer for a prefix that a wrong draft token has left; margins are read row by row
        return verify_match(logits, draft, pipeline, generated_ids)
    values, choices = choose_rows(logits, draft.token_ids, pipeline, generated_ids)
    finite, token_ids = torch.stack([values.isfinite().long(), choices]).tolist()  # the one copy of a round
    num_draft = len(draft.token_ids)
    num_accepted = common_length(draft.token_ids, token_ids)
    num_finite = (*finite[: num_accepted + 1], 0).index(0)
    if num_finite == 0:
        raise RequestError(
            f"the model's logits at generated index {len(generated_ids)} are not finite; try another dtype (float32) or"
            " check the weights"
        )
    if num_finite <= num_accepted:
        return Verdict(tuple(token_ids[:num_finite]), num_finite, None)
    emitted = tuple(token_ids[: num_accepted + 1])
    return Verdict(emitted, num_accepted, "bonus" if num_accepted == num_draft else "recovered")


def choose_rows(
    logits: Tensor, draft_ids: Sequence[int], pipeline: LogitsPipeline, generated_ids: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """(greatest value, its lowest id) of every row once processed and raced, each [num_rows], on the device.

    Row i sees ``generated_ids`` and the first i of ``draft_ids``.
    """
    if pipeline.takes_raw_logits:
        return lowest_argmax(logits)
    prefix, num_generated = [*generated_ids, *draft_ids], len(generated_ids)
    rows = torch.stack([pipeline.process(row, prefix[: num_generated + place]) for place, row in enumerate(logits)])
    if not pipeline.params.greedy:
        token_ids = torch.arange(rows.shape[-1], device=rows.device)
        places = range(num_generated, num_generated + rows.shape[0])
        rows = rows + torch.stack([position_noise(pipeline.params.seed, index, token_ids) for index in places])
    return lowest_argmax(rows)


def lowest_argmax(rows: Tensor) -> tuple[Tensor, Tensor]:
    """(greatest value, lowest id that has it) of each row of [num_rows, vocab]: what CUDA's argmax leaves open.

    >>> lowest_argmax(torch.tensor([[1.0, 3.0, 3.0], [2.0, 0.0, 2.0]]))[1].tolist()
    [1, 0]
    """
    values = rows.amax(dim=-1)
    token_ids = torch.arange(rows.shape[-1], device=rows.device)
    return values, torch.where(rows == values[:, None], token_ids, rows.shape[-1]).amin(dim=-1)


def verifier(verification: Verification, device: torch.device) -> Verify:
    """The function behind a mode. Match on the CPU goes row by row: reading a value costs nothing there."""
    if verification == "match" and device.type == "cuda":
        return verify_match_batched
    return VERIFIERS[verification]
