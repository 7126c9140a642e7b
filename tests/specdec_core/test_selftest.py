"""The self-test passes where bits hold and fails where they do not."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from specdec_core.loading import settle_exactness
from specdec_core.models.llama import LlamaNetwork
from specdec_core.models.selftest import agreeing_widths, find_variance
from tests.specdec_core.tiny_models import Leak, make_leaky_llama, make_tiny_llama


def in_later_rows(hidden: Tensor, factor: float) -> Tensor:
    factors = torch.ones(hidden.shape[0], 1)
    factors[1:] = factor
    return hidden * factors


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("width", [8, 16])
@pytest.mark.parametrize("context_length", [20, 64, 65, 512, 2048])
def test_it_passes_on_the_fixed_geometry(dtype: torch.dtype, width: int, context_length: int) -> None:
    target = make_tiny_llama(dtype=dtype, width=width, context_length=context_length)
    assert find_variance(target) is None
    assert target.cache_length == 0


@pytest.mark.usefixtures("one_thread")
def test_a_network_that_leaks_nothing_passes() -> None:
    assert find_variance(make_leaky_llama(lambda hidden, start, extent: hidden)) is None


LEAKS: dict[str, tuple[Leak, str]] = {
    "place": (lambda hidden, start, extent: in_later_rows(hidden, 1 + 2**-20), "row"),
    "neighbours": (lambda hidden, start, extent: hidden + hidden.sum() * 1e-6, "row"),
    "rows after": (lambda hidden, start, extent: hidden + hidden[-1] * 1e-6, "row"),
    "extent 128": (lambda hidden, start, extent: hidden * (1 + 2**-20 * (extent > 64)), "around 64"),
    "extent 576": (lambda hidden, start, extent: hidden * (1 + 2**-20 * (extent > 512)), "around 512"),
    "extent 1088": (lambda hidden, start, extent: hidden * (1 + 2**-20 * (extent > 1024)), "around 1024"),
    "the largest extent": (lambda hidden, start, extent: hidden * (1 + 2**-20 * (extent > 1984)), "around 1984"),
    "prefill": (
        lambda hidden, start, extent: hidden + hidden[-1] * 1e-6 if hidden.shape[0] == 64 else hidden,
        "prefill rows",
    ),
}


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("name", LEAKS)
def test_it_finds_a_leak(name: str) -> None:
    leak, message = LEAKS[name]
    assert message in (find_variance(make_leaky_llama(leak)) or "")


@pytest.mark.usefixtures("one_thread")
def test_it_finds_a_head_that_looks_at_its_neighbours() -> None:
    class LeakyHead(LlamaNetwork):
        def logits(self, hidden: Tensor) -> Tensor:
            logits = super().logits(hidden)
            return logits + logits.mean() * 1e-6

    target = make_tiny_llama(dtype=torch.float32)
    target.network.__class__ = LeakyHead
    assert "head's rows depend on their neighbours" in (find_variance(target) or "")


@pytest.mark.usefixtures("one_thread")
def test_narrow_passes_are_kept_only_where_they_have_the_bits_of_the_widest() -> None:
    """A one-row pass takes another kernel on many machines: a narrow width is a claim to be checked, never assumed."""

    def other_kernel(hidden: Tensor, start: int, extent: int) -> Tensor:
        return hidden * (1 + 2**-20) if hidden.shape[0] == 4 and start > 500 else hidden

    target = make_leaky_llama(other_kernel, width=16, narrow_widths=(4, 8))
    assert agreeing_widths(target) == (8,)
    settled, reasons = settle_exactness(target, asked="bitwise")
    assert settled.geometry.widths == (8, 16)
    assert reasons[1].startswith("passes of 8, 16 rows") and "no passes of 4 rows" in reasons[2]


@pytest.mark.usefixtures("one_thread")
def test_a_head_of_few_rows_with_other_bits_drops_the_width() -> None:
    class OtherHead(LlamaNetwork):
        def logits(self, hidden: Tensor) -> Tensor:
            return super().logits(hidden) * (1 + 2**-20 * (hidden.shape[0] == 8))

    target = make_tiny_llama(dtype=torch.float32, width=16, narrow_widths=(4, 8))
    target.network.__class__ = OtherHead
    assert agreeing_widths(target) == (4,)


@pytest.mark.slow
def test_the_real_model_keeps_its_bits_on_text(embedded_folder) -> None:
    """What the self-test concludes from two layers and random numbers, checked on all layers and real text."""
    from specdec_core.loading import load_model

    model = load_model(embedded_folder, exactness="bitwise")
    target, width = model.target, model.geometry.width
    token_ids = model.tokenizer.encode("The quick brown fox jumps over the lazy dog. " * 110)[: 1024 + 2 * width]
    for boundary in (64, 512, 1024):
        prompt, answer = token_ids[: boundary - width - 2], token_ids[boundary - width - 2 :][: 2 * width]
        target.prefill(prompt)
        plain = torch.cat([target.decode([token_id]) for token_id in answer])
        target.rollback(len(prompt))
        wide = torch.cat([target.decode(answer[start : start + width]) for start in (0, width)])
        assert torch.equal(plain, wide)
