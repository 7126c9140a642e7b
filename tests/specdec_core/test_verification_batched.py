"""Batched match verification is row-by-row match verification: same verdict, same errors, one copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from specdec_core.errors import RequestError
from specdec_core.sampling import LogitsPipeline, SamplingParams
from specdec_core.types import Draft
from specdec_core.verification import Verdict, verify_match
from specdec_core.verification_batched import lowest_argmax, verifier, verify_match_batched

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]
VOCAB_SIZE = 19
PARAMS: list[dict[str, Any]] = [
    {},
    {"repetition_penalty": 1.4},
    {"temperature": 0.7, "seed": 3},
    {"temperature": 1.3, "top_k": 4, "seed": 1},
    {"temperature": 1.0, "top_p": 0.8, "repetition_penalty": 1.2, "seed": 2},
]


def make_case(
    seed: int, num_draft: int, params: dict[str, Any]
) -> tuple[torch.Tensor, Draft, LogitsPipeline, list[int]]:
    """Coarse logits, so that ties are common; a draft that follows the target up to a random place."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randint(-3, 4, (num_draft + 1, VOCAB_SIZE), generator=generator).float()
    pipeline = LogitsPipeline(SamplingParams(**params), [1, 2])
    generated = torch.randint(VOCAB_SIZE, (seed % 5,), generator=generator).tolist()
    draft: list[int] = []
    for row in range(num_draft):
        right = pipeline.choose(logits[row], [*generated, *draft])
        wrong = int(torch.randint(VOCAB_SIZE, (1,), generator=generator))
        draft.append(right if row < seed % 7 else wrong)
    return logits, Draft(tuple(draft)), pipeline, generated


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("params", PARAMS, ids=str)
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), num_draft=st.integers(0, 7))
def test_the_verdict_is_that_of_the_row_by_row_walk(
    device: str, params: dict[str, Any], seed: int, num_draft: int
) -> None:
    logits, draft, pipeline, generated = make_case(seed, num_draft, params)
    expected = verify_match(logits, draft, pipeline, generated)
    assert verify_match_batched(logits.to(device), draft, pipeline, generated) == expected


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64], ids=str)
def test_ties_go_to_the_lowest_id_in_every_dtype(dtype: torch.dtype) -> None:
    rows = torch.zeros(3, 300, dtype=dtype)
    rows[0, [250, 17, 90]] = 2
    rows[1, [0, 299]] = 1
    rows[2] = -torch.inf
    rows[2, [7, 8]] = -5
    assert lowest_argmax(rows)[1].tolist() == [17, 0, 7]


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_only_rows_that_count_must_be_finite(value: float) -> None:
    """A row behind the first mismatch was computed for nothing; nonsense there ends no text."""
    logits, draft, pipeline, generated = make_case(9, 5, {})
    expected = verify_match(logits, draft, pipeline, generated)
    assert expected.num_accepted == 2
    logits[4, 3] = value
    assert verify_match_batched(logits, draft, pipeline, generated) == expected
    logits[1, 3] = value
    short = Verdict(expected.token_ids[:1], 1, None)
    for verify in (verify_match, verify_match_batched):
        assert verify(logits, draft, pipeline, generated) == short
        with pytest.raises(RequestError, match=f"generated index {len(generated) + 1} are not finite"):
            verify(logits[1:], Draft(draft.token_ids[1:]), pipeline, [*generated, draft.token_ids[0]])


def test_a_grammar_is_not_asked_about_a_prefix_it_forbids() -> None:
    class EvenOnly:
        def allowed(self, generated_ids: Sequence[int]) -> torch.Tensor:
            assert all(token_id % 2 == 0 for token_id in generated_ids), "asked behind a wrong draft token"
            return torch.arange(VOCAB_SIZE) % 2 == 0

        def forced(self, generated_ids: Sequence[int], max_tokens: int) -> tuple[int, ...]:
            return ()

    pipeline = LogitsPipeline(SamplingParams(), [], EvenOnly())
    logits = torch.zeros(3, VOCAB_SIZE)
    verdict = verify_match_batched(logits, Draft((1, 3)), pipeline, [])
    assert verdict == verify_match(logits, Draft((1, 3)), pipeline, [])


def test_cuda_verifies_in_one_copy_and_the_cpu_row_by_row() -> None:
    assert verifier("match", torch.device("cuda")) is verify_match_batched
    assert verifier("match", torch.device("cpu")) is verify_match


def test_a_round_copies_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every read of a value is a wait on CUDA: greedy, penalised, and with temperature and top-k."""
    for params in PARAMS[:4]:
        logits, draft, pipeline, generated = make_case(11, 6, params)
        reads: list[str] = []
        with monkeypatch.context() as patch:
            for name in ("item", "tolist", "__bool__", "__int__", "__float__", "nonzero", "cpu"):
                patch.setattr(torch.Tensor, name, _counted(name, getattr(torch.Tensor, name), reads))
            verify_match_batched(logits, draft, pipeline, generated)
        assert reads == ["tolist"], params


def _counted(name: str, method: Any, reads: list[str]) -> Any:
    def call(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        reads.append(name)
        return method(self, *args, **kwargs)

    return call
