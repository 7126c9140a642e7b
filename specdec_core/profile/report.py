"""A profile as a document, as text for a terminal, and as a picture."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from specdec_core import __version__
from specdec_core.errors import RequestError
from specdec_core.profile.machine import cpu_name
from specdec_core.profile.measuring import ModelProfile, Timing
from specdec_core.theory import Roofline, decode_roofline

__all__ = ["check_can_plot", "profile_document", "profile_text", "write_png"]

_ACCEPTANCES = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
_BAR_CELLS = 40
_EIGHTHS = " ▏▎▍▌▋▊▉"
_TABLE_HEAD = ("rows", "ms", "quartiles", "x plain", "GB/s", "of read", "GFLOP/s", "of matmul", "bound", "break-even")


def profile_document(profile: ModelProfile) -> dict[str, Any]:
    """Everything measured and what follows, with its conditions, ready for JSON. Seconds, bytes and FLOP."""
    return {
        "conditions": _conditions(profile),
        "geometry": _geometry(profile),
        "machine": {
            "read_bytes_per_s": profile.peaks.read_bytes_per_s,
            "matmul_flops_per_s": profile.peaks.matmul_flops_per_s,
            "matmul_size": profile.peaks.matmul_size,
            "ridge_flops_per_byte": profile.peaks.ridge,
        },
        "prefill": _prefill(profile),
        "passes": [_pass(profile, num_rows) for num_rows in profile.passes],
        "optimal_draft_length": [_optimum(profile, acceptance) for acceptance in _ACCEPTANCES],
    }


def _conditions(profile: ModelProfile) -> dict[str, Any]:
    fingerprint = profile.model.fingerprint
    return {
        "model": profile.model.name,
        "weights_hash": fingerprint.weights_hash,
        "device": fingerprint.device,
        "cpu": cpu_name(),
        "num_threads": fingerprint.num_threads,
        "dtype": fingerprint.dtype,
        "torch": torch.__version__,
        "specdec": __version__,
        "date": profile.measured_at.isoformat(timespec="seconds"),
        "load_average": profile.load_average,
        "num_cached_tokens": profile.num_cached_tokens,
        "num_repeats": profile.passes[profile.plain_rows].num_repeats,
        "draft_cost": profile.draft_cost,
    }


def _geometry(profile: ModelProfile) -> dict[str, Any]:
    geometry, reasons = profile.model.geometry, profile.model.reasons
    tested = [reason for reason in reasons if reason.startswith(("self-test", "falling back"))]
    return {
        "exactness": geometry.exactness,
        "widths": list(geometry.widths) if geometry.exactness == "bitwise" else [geometry.width],
        "chunk": geometry.chunk,
        "prefill_step": geometry.prefill_step,
        "kv_block": geometry.kv_block,
        "kv_zones": geometry.kv_zones,
        "self_test": tested[0] if tested else "self-test not run: exactness law promises no bits",
        "reasons": [reason for reason in reasons if reason not in tested],
    }


def _prefill(profile: ModelProfile) -> dict[str, Any]:
    flops_per_s = profile.prefill_flops / profile.prefill.median_s
    return _times(profile.prefill) | {
        "num_tokens": profile.num_cached_tokens,
        "tokens_per_s": profile.num_cached_tokens / profile.prefill.median_s,
        "num_flops": profile.prefill_flops,
        "flops_per_s": flops_per_s,
        "matmul_share": flops_per_s / profile.peaks.matmul_flops_per_s,
    }


def _pass(profile: ModelProfile, num_rows: int) -> dict[str, Any]:
    timing, work, peaks = profile.passes[num_rows], profile.work(num_rows), profile.peaks
    floor = _floor(profile, num_rows)
    return _times(timing) | {
        "num_rows": num_rows,
        "weight_bytes": work.weight_bytes,
        "kv_bytes": work.kv_bytes,
        "weights_share": work.weight_bytes / work.num_bytes,
        "bytes_per_s": work.num_bytes / timing.median_s,
        "read_share": work.num_bytes / timing.median_s / peaks.read_bytes_per_s,
        "num_flops": work.num_flops,
        "flops_per_s": work.num_flops / timing.median_s,
        "matmul_share": work.num_flops / timing.median_s / peaks.matmul_flops_per_s,
        "flops_per_byte": floor.arithmetic_intensity,
        "floor_s": floor.floor_time_s,
        "bound": floor.bound,
        "cost": profile.pass_cost(num_rows - 1),
        "num_draft_tokens": num_rows - 1,
        "break_even_acceptance": profile.break_even_acceptance(num_rows - 1),
    }


def _floor(profile: ModelProfile, num_rows: int) -> Roofline:
    work = profile.work(num_rows)
    return decode_roofline(
        weight_bytes=work.weight_bytes,
        kv_bytes=work.kv_bytes,
        num_weights=work.num_weights,
        num_rows=num_rows,
        attention_flops=work.attention_flops,
        bandwidth=profile.peaks.read_bytes_per_s,
        peak_flops=profile.peaks.matmul_flops_per_s,
    )


def _optimum(profile: ModelProfile, acceptance: float) -> dict[str, Any]:
    length, factor = profile.optimum(acceptance)
    return {"acceptance": acceptance, "num_draft_tokens": length, "speedup": factor}


def _times(timing: Timing) -> dict[str, Any]:
    return {
        "median_s": timing.median_s,
        "lower_quartile_s": timing.lower_quartile_s,
        "upper_quartile_s": timing.upper_quartile_s,
    }


def profile_text(profile: ModelProfile) -> str:
    """The same for people: conditions, machine, passes as a table and as bars, and what drafts would gain."""
    document = profile_document(profile)
    sections = (_heading(document), _machine_lines(document), _pass_table(document), _bars(document), _gains(document))
    return "\n\n".join("\n".join(lines) for lines in sections)


def _heading(document: dict[str, Any]) -> list[str]:
    facts, geometry = document["conditions"], document["geometry"]
    widths = ", ".join(map(str, geometry["widths"]))
    load = facts["load_average"]
    rows = f"passes of {widths} rows" if geometry["exactness"] == "bitwise" else f"passes of up to {widths} rows"
    return [
        f"{facts['model']}  {facts['dtype']} on {facts['device']}  {geometry['exactness']}, {rows}",
        f"{facts['cpu']} · {facts['num_threads']} threads · torch {facts['torch']} · specdec {facts['specdec']}"
        f" · {facts['date']}",
        f"medians of {facts['num_repeats']} interleaved rounds, {facts['num_cached_tokens']} tokens in the cache"
        + ("" if load is None else f", load average {load:.1f} before"),
        geometry["self_test"],
        *geometry["reasons"],
    ]


def _machine_lines(document: dict[str, Any]) -> list[str]:
    machine, prefill, plain = document["machine"], document["prefill"], document["passes"][0]
    size = machine["matmul_size"]
    return [
        f"machine   reads {_giga(machine['read_bytes_per_s'])} GB/s, multiplies {size} x {size} matrices at"
        f" {_giga(machine['matmul_flops_per_s'])} GFLOP/s, ridge {machine['ridge_flops_per_byte']:.1f} FLOP/byte",
        f"prefill   {prefill['num_tokens']} tokens in {prefill['median_s']:.2f} s: {prefill['tokens_per_s']:.0f}"
        f" tokens/s, {_giga(prefill['flops_per_s'])} GFLOP/s, {prefill['matmul_share']:.0%} of the machine's",
        f"decode    a pass reads {_mega(plain['weight_bytes'])} MB of weights and {_mega(plain['kv_bytes'])} MB of keys"
        f" and values ({plain['weights_share']:.1%} weights); at best {plain['floor_s'] * 1000:.1f} ms",
    ]


def _pass_table(document: dict[str, Any]) -> list[str]:
    rows = [_TABLE_HEAD, *(_table_row(pass_) for pass_ in document["passes"])]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _table_row(pass_: dict[str, Any]) -> tuple[str, ...]:
    return (
        str(pass_["num_rows"]),
        f"{pass_['median_s'] * 1000:.1f}",
        f"{pass_['lower_quartile_s'] * 1000:.1f}-{pass_['upper_quartile_s'] * 1000:.1f}",
        f"{pass_['cost']:.2f}",
        _giga(pass_["bytes_per_s"]),
        f"{pass_['read_share']:.0%}",
        _giga(pass_["flops_per_s"]),
        f"{pass_['matmul_share']:.0%}",
        pass_["bound"],
        _break_even(pass_),
    )


def _break_even(pass_: dict[str, Any]) -> str:
    """At which acceptance a full draft of such a pass pays."""
    length, acceptance = pass_["num_draft_tokens"], pass_["break_even_acceptance"]
    if not length:
        return "-"
    return f"never at K={length}" if acceptance is None else f"{acceptance:.2f} at K={length}"


def _bars(document: dict[str, Any]) -> list[str]:
    """T(rows): bars from 0 to the slowest pass."""
    longest = max(pass_["median_s"] for pass_ in document["passes"])
    return ["T(rows)"] + [
        f"{pass_['num_rows']:>4} {_bar(pass_['median_s'] / longest)} {pass_['median_s'] * 1000:.1f} ms"
        for pass_ in document["passes"]
    ]


def _bar(share: float) -> str:
    """A bar of a share of the full length, in eighths of a cell."""
    eighths = max(1, round(share * _BAR_CELLS * 8))
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def _gains(document: dict[str, Any]) -> list[str]:
    optima = document["optimal_draft_length"]
    cost = document["conditions"]["draft_cost"]
    drafting = (
        f"each draft token costs {cost:g} plain passes" if cost else "drafting is free, as from text it nearly is"
    )
    return [
        f"best draft length where {drafting}",
        "acceptance " + "".join(f"{optimum['acceptance']:>7.1f}" for optimum in optima),
        "length     " + "".join(f"{optimum['num_draft_tokens'] or 'off':>7}" for optimum in optima),
        "x plain    " + "".join(f"{optimum['speedup']:>7.2f}" for optimum in optima),
    ]


def _giga(value: float) -> str:
    return f"{value / 1e9:.3g}" if value < 1e11 else f"{value / 1e9:.0f}"


def _mega(value: float) -> str:
    return f"{value / 1e6:.3g}" if value < 1e8 else f"{value / 1e6:.0f}"


def check_can_plot(path: Path) -> None:
    """Whether a picture could be written to ``path``; asked before anything is measured.

    Raises RequestError where matplotlib is missing, the name does not end in .png, or the folder is not there.
    """
    if find_spec("matplotlib") is None:
        raise RequestError("a PNG needs matplotlib: install the extra 'plot', as in pip install 'loopeng[plot]'")
    if path.suffix.lower() != ".png":
        raise RequestError(f"{str(path)!r} does not end in .png")
    if not path.parent.is_dir() or path.is_dir():
        raise RequestError(f"cannot write {str(path)!r}: its folder is not there, or the name is a folder's")


def write_png(profile: ModelProfile, path: Path) -> None:
    """T(rows) with quartiles, and below it the floor of memory and arithmetic. Raises as :func:`check_can_plot`."""
    check_can_plot(path)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    document = profile_document(profile)
    passes, facts = document["passes"], document["conditions"]
    rows = [pass_["num_rows"] for pass_ in passes]
    median, lower, upper, floor = (
        [pass_[name] * 1000 for pass_ in passes]
        for name in ("median_s", "lower_quartile_s", "upper_quartile_s", "floor_s")
    )
    below = [middle - low for middle, low in zip(median, lower, strict=True)]
    above = [high - middle for middle, high in zip(median, upper, strict=True)]
    figure = Figure(figsize=(8, 5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.errorbar(rows, median, yerr=[below, above], marker="o", capsize=3, label="measured, median and quartiles")
    axes.plot(rows, floor, linestyle="--", marker=".", label="floor of memory and arithmetic")
    axes.set(xlabel="rows of a decode pass", ylabel="ms", xticks=rows, ylim=(0, None))
    heading = f"{facts['model']}, {facts['dtype']}, {document['geometry']['exactness']}"
    axes.set_title(f"{heading}\n{facts['device']}, {facts['num_threads']} threads, {facts['cpu']}, {facts['date']}")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, format="png", dpi=120)
