"""Profiles of the tiny Llama: the counts by hand, the sequence undisturbed, the same numbers in every rendering."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import torch

from specdec_core.engine import Engine
from specdec_core.errors import ContextOverflowError, RequestError
from specdec_core.loading import LoadedModel
from specdec_core.metrics import NumericsFingerprint
from specdec_core.models.base import Exactness
from specdec_core.models.linear import can_pack, make_linear
from specdec_core.profile import report as profile_report
from specdec_core.profile.machine import (
    MachinePeaks,
    cpu_name,
    last_level_cache_bytes,
    machine_load,
    measure_peaks,
    timed,
)
from specdec_core.profile.measuring import (
    ModelProfile,
    Timing,
    measure_passes,
    measure_prefill,
    profile_model,
    row_counts,
)
from specdec_core.profile.pass_work import decode_work, prefill_flops
from specdec_core.profile.report import check_can_plot, profile_document, profile_text, write_png
from specdec_core.types import GenerationRequest
from tests.specdec_core.tiny_models import TinyTokenizer, make_tiny_llama

CPU = torch.device("cpu")
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]
# The tiny model: 97 tokens, hidden 32, intermediate 48, 2 layers, 4 heads, 2 key-value heads of 8, float64.
LAYER_WEIGHTS = 2 * (32 * 32 + 2 * 16 * 32 + 32 * 32 + 3 * 48 * 32)
HEAD_WEIGHTS = 97 * 32
NORM_WEIGHTS = 2 * 2 * 32 + 32

_TIMES = {"median_s", "lower_quartile_s", "upper_quartile_s"}
KEYS = {
    "conditions": {"model", "weights_hash", "device", "cpu", "num_threads", "dtype", "torch", "specdec", "date"}
    | {"load_average", "num_cached_tokens", "num_repeats", "draft_cost"},
    "geometry": {"exactness", "widths", "chunk", "prefill_step", "kv_block", "kv_zones", "self_test", "reasons"},
    "machine": {"read_bytes_per_s", "matmul_flops_per_s", "matmul_size", "ridge_flops_per_byte"},
    "prefill": _TIMES | {"num_tokens", "tokens_per_s", "num_flops", "flops_per_s", "matmul_share"},
    "passes": _TIMES
    | {"num_rows", "weight_bytes", "kv_bytes", "weights_share", "bytes_per_s", "read_share", "num_flops"}
    | {"flops_per_s", "matmul_share", "flops_per_byte", "floor_s", "bound", "cost", "num_draft_tokens"}
    | {"break_even_acceptance"},
    "optimal_draft_length": {"acceptance", "num_draft_tokens", "speedup"},
}


def make_model(
    exactness: Exactness = "bitwise", *, device: str = "cpu", context_length: int = 256, reasons: tuple[str, ...] = ()
) -> LoadedModel:
    target = make_tiny_llama(exactness=exactness, narrow_widths=(4,), device=device, context_length=context_length)
    fingerprint = NumericsFingerprint(exactness, 8, 64, 64, "float64", f"{device}:test", 1, torch.__version__, "tiny")
    return LoadedModel(
        target,
        TinyTokenizer(),
        fingerprint,
        target.network.device,
        target.network.dtype,
        target.geometry,
        reasons,
        "tiny",
    )


def make_profile(times_ms: dict[int, float], exactness: Exactness = "bitwise", draft_cost: float = 0.0) -> ModelProfile:
    """A profile whose times are given: 10 GB/s, 100 GFLOP/s, 64 tokens in the cache."""
    model = make_model(exactness, reasons=("device cpu: as asked", "self-test passed: all is well"))
    passes = {rows: Timing(ms / 1e3, 0.9 * ms / 1e3, 1.2 * ms / 1e3, 5) for rows, ms in times_ms.items()}
    date = datetime(2026, 3, 1, 12, tzinfo=UTC)
    peaks, prefill = MachinePeaks(10e9, 100e9, 1024), Timing(0.5, 0.5, 0.5, 3)
    return ModelProfile(model, date, 0.25, 64, peaks, passes, prefill, draft_cost)


def test_bytes_and_flops_of_a_decode_pass_are_those_counted_by_hand() -> None:
    target = make_tiny_llama(width=8)
    work = decode_work(target, 8, num_cached_tokens=60)
    assert work.weight_bytes == 8 * (LAYER_WEIGHTS + HEAD_WEIGHTS + NORM_WEIGHTS + 8 * 32)  # 8 embedding rows
    assert work.kv_bytes == 8 * 2 * 2 * 2 * 8 * 128  # layers, keys and values, heads, head size, slots 0..127
    assert work.num_bytes == work.weight_bytes + work.kv_bytes
    assert work.num_flops == 2 * 8 * (LAYER_WEIGHTS + HEAD_WEIGHTS) + 2 * 4 * 8 * 128 * 32
    assert decode_work(target, 4, num_cached_tokens=60).kv_bytes == work.kv_bytes // 2  # within the first 64 slots


def test_flops_of_prefill_count_chunks_padding_and_one_row_of_the_head() -> None:
    bitwise, law = (make_tiny_llama(exactness=exactness) for exactness in ("bitwise", "law"))
    attention = 2 * 4 * 32 * (64 * 64 + 8 * 128)
    assert prefill_flops(bitwise, 65) == 2 * HEAD_WEIGHTS + 2 * LAYER_WEIGHTS * (64 + 8) + attention
    law_attention = 2 * 4 * 32 * (64 * 64 + 1 * 128)
    assert prefill_flops(law, 65) == 2 * HEAD_WEIGHTS + 2 * LAYER_WEIGHTS * 65 + law_attention


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("has_bias", [False, True])
def test_a_linear_knows_its_bytes_in_either_layout(dtype: torch.dtype, packed: bool, has_bias: bool) -> None:
    if packed and not can_pack(CPU, dtype):
        pytest.skip("this build of torch does not pack here")
    linear = make_linear(
        torch.zeros(48, 32, dtype=dtype), torch.zeros(48, dtype=dtype) if has_bias else None, packed=packed
    )
    assert linear.nbytes == dtype.itemsize * (48 * 32 + 48 * has_bias)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("exactness", ["bitwise", "law"])
def test_measuring_passes_leaves_the_sequence_as_it_was(exactness: Exactness, device: str) -> None:
    target = make_tiny_llama(exactness=exactness, device=device, context_length=80)
    target.prefill(list(range(60)))
    target.decode([5, 6, 7])
    expected = target.decode([8, 9])
    target.rollback(63)
    passes = measure_passes(target, torch.device(device), num_repeats=2)
    assert target.cache_length == 63
    assert torch.equal(target.decode([8, 9]), expected)
    assert tuple(passes) == row_counts(target.geometry)
    for timing in passes.values():
        assert 0 < timing.lower_quartile_s <= timing.median_s <= timing.upper_quartile_s
        assert timing.num_repeats == 2


def test_rounds_go_over_all_row_counts_in_rotation() -> None:
    target = make_tiny_llama(narrow_widths=(2, 4))
    rows: list[int] = []
    decode = target.decode
    target.decode = lambda ids: (rows.append(len(ids)), decode(ids))[1]  # type: ignore[method-assign]
    measure_passes(target, CPU, num_repeats=2)
    assert rows == [2, 4, 8] * 3  # one round warms up


def test_an_interrupted_measurement_leaves_the_sequence_too() -> None:
    target = make_tiny_llama(context_length=80)
    target.prefill([1, 2, 3])

    def interrupt(_: str) -> None:
        if target.num_passes > 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure_passes(target, CPU, num_repeats=100, on_progress=interrupt)
    assert target.cache_length == 3


def test_a_model_generates_the_same_after_its_profile_as_before() -> None:
    model = make_model()
    engine, request = Engine(model), GenerationRequest(prompt="a b a b a b")
    before = engine.generate(request)
    profile = profile_model(model, num_repeats=1, num_cached_tokens=64)
    assert model.target.cache_length == 0
    assert engine.generate(request).token_ids == before.token_ids
    assert profile.work(4) == decode_work(model.target, 4, 64)
    assert profile.prefill_flops == prefill_flops(model.target, 64)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("exactness", "rows"), [("bitwise", [4, 8]), ("law", [1, 2, 3, 4, 5, 6, 7, 8])])
def test_a_profile_agrees_with_itself(exactness: Exactness, rows: list[int], device: str) -> None:
    heard: list[str] = []
    model = make_model(exactness, device=device)
    document = profile_document(profile_model(model, num_repeats=2, num_cached_tokens=64, on_progress=heard.append))
    machine = document["machine"]
    assert [pass_["num_rows"] for pass_ in document["passes"]] == rows
    for pass_ in document["passes"]:
        assert pass_["bytes_per_s"] * pass_["median_s"] == pytest.approx(pass_["weight_bytes"] + pass_["kv_bytes"])
        assert pass_["read_share"] == pytest.approx(pass_["bytes_per_s"] / machine["read_bytes_per_s"])
        assert pass_["matmul_share"] == pytest.approx(pass_["flops_per_s"] / machine["matmul_flops_per_s"])
        assert pass_["flops_per_s"] * pass_["median_s"] == pytest.approx(pass_["num_flops"])
        assert pass_["bound"] == ("memory" if pass_["flops_per_byte"] <= machine["ridge_flops_per_byte"] else "compute")
        assert pass_["cost"] == pytest.approx(pass_["median_s"] / document["passes"][0]["median_s"])
    prefill = document["prefill"]
    assert prefill["tokens_per_s"] * prefill["median_s"] == pytest.approx(64)
    assert any("prefill" in line for line in heard)
    assert any("decode" in line for line in heard)


def test_the_document_keeps_its_keys() -> None:
    """Others read these: a key that goes or changes its name is news."""
    document = json.loads(json.dumps(profile_document(make_profile({4: 10, 8: 12}))))
    assert set(document) == set(KEYS)
    for part, keys in KEYS.items():
        rows = document[part] if isinstance(document[part], list) else [document[part]]
        assert all(set(row) == keys for row in rows), part
    assert document["conditions"]["date"] == "2026-03-01T12:00:00+00:00"
    assert document["conditions"]["cpu"] == cpu_name() != ""


def test_what_follows_for_drafts() -> None:
    """Four rows 10 ms, eight 15: K = 3 is free, K = 7 costs one and a half passes."""
    profile = make_profile({4: 10, 8: 15})
    assert [profile.pass_cost(length) for length in (0, 3, 4, 7)] == [1.0, 1.0, 1.5, 1.5]
    assert profile.break_even_acceptance(3) == 0.0
    assert profile.break_even_acceptance(7) == pytest.approx(0.334, abs=0.001)  # E(a, 7) = 1.5
    assert profile.optimum(0.5) == (3, pytest.approx(1.875))
    assert profile.optimum(0.95) == (7, pytest.approx(sum(0.95**i for i in range(8)) / 1.5))


def test_law_has_a_cost_for_every_row_and_a_dear_drafter_is_turned_off() -> None:
    times_ms = {rows: 10 + 4 * (rows - 1) for rows in range(1, 9)}
    assert make_profile(times_ms, "law").optimum(0.3) == (0, 1.0)
    assert make_profile(times_ms, "law").optimum(0.7) == (2, pytest.approx(2.19 / 1.8))
    assert make_profile(times_ms, "law", draft_cost=0.4).optimum(0.7) == (0, 1.0)
    assert make_profile({1: 10, **dict.fromkeys(range(2, 9), 100)}, "law").break_even_acceptance(7) is None


def test_the_text_says_what_the_document_says() -> None:
    text = profile_text(make_profile({4: 10, 8: 15}))
    lines = text.splitlines()
    assert lines[0] == "tiny  float64 on cpu:test  bitwise, passes of 4, 8 rows"
    assert "1 threads" in lines[1] and "2026-03-01" in lines[1] and cpu_name() in lines[1]
    assert lines[2] == "medians of 5 interleaved rounds, 64 tokens in the cache, load average 0.2 before"
    assert "self-test passed: all is well" in lines
    assert "device cpu: as asked" in lines
    assert any(line.split()[:4] == ["8", "15.0", "13.5-18.0", "1.50"] and "at K=7" in line for line in lines)
    bars = [line for line in lines if line.endswith(" ms") and "█" in line]
    assert [line.count("█") for line in bars] == [26, 40]  # 2/3 of 40 cells, and 40
    assert lines[-2].split() == ["length", "3", "3", "3", "3", "3", "3", "7"]


def test_the_text_of_a_law_profile_tells_the_missing_test_and_drafts_that_are_off() -> None:
    profile = make_profile({rows: 10 + 4 * (rows - 1) for rows in range(1, 9)}, "law", draft_cost=0.2)
    text = profile_text(profile)
    assert "passes of up to 8 rows" in text
    assert "each draft token costs 0.2 plain passes" in text
    assert " off" in text.splitlines()[-2]
    assert profile_document(make_profile({4: 10, 8: 15}))["geometry"]["self_test"] == "self-test passed: all is well"
    model = make_model("law", reasons=("falling back to exactness 'law': rows differ",))
    document = profile_document(profile_model(model, num_repeats=1, num_cached_tokens=8))
    assert document["geometry"]["self_test"] == "falling back to exactness 'law': rows differ"
    assert document["geometry"]["reasons"] == []


@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="matplotlib is not installed")
def test_the_picture_is_a_png(tmp_path: Path) -> None:
    path = tmp_path / "passes.png"
    write_png(make_profile({4: 10, 8: 15}), path)
    assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert "matplotlib.pyplot" not in sys.modules  # no window system, no global state


def test_a_picture_that_cannot_be_written_is_refused_before_measuring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profile_report, "find_spec", lambda name: None)
    with pytest.raises(RequestError, match=r"loopeng\[plot\]"):
        check_can_plot(tmp_path / "passes.png")
    monkeypatch.setattr(profile_report, "find_spec", lambda name: name)
    with pytest.raises(RequestError, match=r"does not end in \.png"):
        check_can_plot(tmp_path / "passes.jpg")
    with pytest.raises(RequestError, match="folder"):
        check_can_plot(tmp_path / "missing" / "passes.png")
    check_can_plot(tmp_path / "passes.png")


def test_no_pass_is_measured_over_the_border_of_a_zone() -> None:
    """Behind 186 tokens a pass holds 6: the message says where the widest fit."""
    target = make_tiny_llama(kv_block=512)
    target = target.with_geometry(replace(target.geometry, kv_zones=(192, 384)))
    target.prefill([1] * 186)
    with pytest.raises(RequestError, match="holds more than 6, and the widest has 8 rows: measure behind 178 tokens"):
        measure_passes(target, CPU, num_repeats=1)
    target.prefill([1] * 178)
    assert set(measure_passes(target, CPU, num_repeats=1)) == {8}


def test_limits() -> None:
    model = make_model(context_length=70)
    model.target.prefill(list(range(64)))
    with pytest.raises(ContextOverflowError, match="measure behind fewer tokens"):
        measure_passes(model.target, CPU, num_repeats=1)
    assert model.target.cache_length == 64
    with pytest.raises(ContextOverflowError):
        measure_prefill(model.target, CPU, num_tokens=70, num_repeats=1)
    for wrong in ({"num_repeats": 0}, {"num_cached_tokens": 0}, {"draft_cost": -1.0}):
        with pytest.raises(RequestError):
            profile_model(model, **wrong)
    with pytest.raises(RequestError):
        Timing.of([])
    assert Timing.of([2.0]) == Timing(2.0, 2.0, 2.0, 1)


@pytest.mark.parametrize("device", DEVICES)
def test_the_machine_is_measured_and_named(device: str) -> None:
    where = torch.device(device)
    peaks = measure_peaks(where, torch.float32, buffer_bytes=1 << 20)
    assert peaks.read_bytes_per_s > 0
    assert peaks.ridge == pytest.approx(peaks.matmul_flops_per_s / peaks.read_bytes_per_s)
    assert last_level_cache_bytes(where) >= 64 << 10
    assert timed(where, lambda: torch.zeros(8, device=where)) > 0
    better = MachinePeaks(1.0, 2.0, 8).better(MachinePeaks(2.0, 1.0, 8))
    assert better == MachinePeaks(2.0, 2.0, 8)


def test_a_system_that_tells_no_load_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (1.5, 2.0, 2.5))
    assert machine_load() == 1.5
    monkeypatch.delattr("os.getloadavg")
    assert machine_load() is None


def test_a_processor_without_a_name_is_told_by_its_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: "processor : 0\nFeatures : asimd\n")
    monkeypatch.setattr("platform.processor", lambda: "")
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert cpu_name() == "aarch64"
