"""The hardware table is fixed, total, and gives its reasons."""

from __future__ import annotations

import pytest
import torch

from specdec_core.errors import ModelLoadError, RequestError
from specdec_core.hardware import (
    HARDWARE_TABLE,
    choose_device,
    choose_numerics,
    find_row,
    instruction_set,
    refuse_quantization,
)
from specdec_core.loading import load_model

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("device_kind", "isa", "dtype", "width", "exactness", "packed"),
    [
        ("cpu", "amx_bf16", "bfloat16", 32, "bitwise", True),
        ("cpu", "avx512_bf16", "bfloat16", 32, "bitwise", True),
        ("cpu", "amx_bf16", "float32", 8, "law", True),
        ("cpu", "avx2", "float32", 8, "law", True),
        ("cpu", "aarch64", "float32", 8, "law", True),
        ("cpu", "avx2", "bfloat16", 16, "law", False),
        ("cpu", "avx512_bf16", "float64", 16, "law", False),
        ("cuda", "*", "bfloat16", 16, "bitwise", False),
        ("cuda", "*", "float16", 16, "law", False),
    ],
)
def test_rows(device_kind: str, isa: str, dtype: str, width: int, exactness: str, packed: bool) -> None:
    row = find_row(device_kind, isa, dtype)
    assert (row.width, row.exactness, row.packed) == (width, exactness, packed)


def test_every_row_can_be_reached_and_says_why() -> None:
    for row in HARDWARE_TABLE:
        assert row.reason
        kind, isa, dtype = ("x" if part == "*" else part for part in (row.device_kind, row.instruction_set, row.dtype))
        assert find_row(kind, isa, dtype) is row


def test_the_choice_is_the_same_every_time_and_carries_reasons() -> None:
    numerics = choose_numerics(CPU)
    assert numerics == choose_numerics(CPU)
    assert numerics.hardware.startswith(f"cpu:{instruction_set()}")
    for word in ("dtype", "exactness", "width"):
        assert any(reason.startswith(word) for reason in numerics.reasons)


def test_what_is_asked_for_overrides_the_row() -> None:
    numerics = choose_numerics(CPU, dtype="float64", exactness="bitwise", width=3)
    assert numerics.dtype == torch.float64
    assert (numerics.geometry.exactness, numerics.geometry.width) == ("bitwise", 3)
    assert "exactness bitwise: as asked" in numerics.reasons
    default = choose_numerics(CPU)
    assert not any(reason.startswith("exactness") and reason.endswith("as asked") for reason in default.reasons)
    assert choose_numerics(CPU, dtype="float32", exactness="bitwise").geometry.width == 8
    assert choose_numerics(CPU, dtype="float32", width=3).geometry.widths == (3,)
    assert choose_numerics(CPU, dtype="float32").geometry.widths == (4, 8)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"dtype": "int8"}, "'int8'"), ({"exactness": "roughly"}, "'roughly'"), ({"width": 0}, "got 0")],
)
def test_arguments_without_a_meaning_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        choose_numerics(CPU, **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("device", ["mps", "cuda:99", "gpu"])
def test_a_device_that_is_not_there_is_refused(device: str) -> None:
    with pytest.raises(ModelLoadError, match=device):
        choose_device(device)


def test_auto_is_cuda_where_there_is_one() -> None:
    assert choose_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    assert choose_device("cpu") == CPU


@pytest.mark.parametrize("scheme", ["int8", "int4"])
@pytest.mark.parametrize(
    ("isa", "words"), [("avx512_bf16", "times those of bf16"), ("avx2", "no pass faster"), ("amx_bf16", "no pass")]
)
def test_quantisation_is_refused_with_what_was_measured(monkeypatch, scheme: str, isa: str, words: str) -> None:
    monkeypatch.setattr("specdec_core.hardware.instruction_set", lambda: isa)
    with pytest.raises(ModelLoadError, match=f"quantize='{scheme}' is not supported on cpu with {isa}: .*{words}"):
        load_model("no-such-model", device="cpu", quantize=scheme)


def test_an_unknown_quantisation_is_a_wrong_request_and_none_is_right() -> None:
    with pytest.raises(RequestError, match="'int3' is not known"):
        refuse_quantization("int3", torch.device("cpu"))
    refuse_quantization(None, torch.device("cpu"))
