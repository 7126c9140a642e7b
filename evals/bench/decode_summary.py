"""From rows to results. Texts are compared first: where bitwise arms differ there is nothing to time.

Results are grouped by model, part and category. Ratios are made per prompt (the median over repetitions where there are
several) and their median over prompts is given with a bootstrap interval. transformers' best mode is the one with
the most tokens per second over the group.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from evals.bench.decode_options import BITWISE_ARMS, GREEDY, PLAIN_1, PLAIN_W, WITHOUT_REFERENCES
from evals.bench.decode_rows import Row
from evals.bench.timing import median_with_interval
from specdec_core.sequences import first_difference

BASELINES = (GREEDY, PLAIN_1, PLAIN_W, WITHOUT_REFERENCES)
Place = tuple[str, int]  # item, repetition
Table = dict[str, dict[Place, Row]]  # arm -> place -> row


def summarise(rows: Sequence[Row]) -> dict[str, Any]:
    """Everything that is reported. ``results`` is None where bitwise arms differ."""
    unequal = unequal_texts(rows)
    results = None if unequal else {model: _of_model(rows, model) for model in _in_order(row.model for row in rows)}
    return {"num_rows": len(rows), "unequal": unequal, "results": results}


def unequal_texts(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Where bitwise arms differ from the first of them on the same prompt: lengths first, then the first difference."""
    first: dict[tuple[str, str], Row] = {}
    found = []
    for row in rows:
        if row.arm not in BITWISE_ARMS:
            continue
        other = first.setdefault((row.model, row.item), row)
        if row.token_ids != other.token_ids:
            lengths = [len(other.token_ids), len(row.token_ids)]
            where = first_difference(other.token_ids, row.token_ids)
            names = {"model": row.model, "item": row.item, "arms": [other.arm, row.arm]}
            found.append(names | {"lengths": lengths, "first_difference": where})
    return found


def _of_model(rows: Sequence[Row], model: str) -> dict[str, Any]:
    own = [row for row in rows if row.model == model]
    identical = {row.item for row in own if row.arm in BITWISE_ARMS and row.repeats_earlier_answer}
    groups: dict[str, list[Row]] = {}
    for row in own:
        for name in _groups_of(row, identical):
            groups.setdefault(name, []).append(row)
    results = {name: _of_group(members) for name, members in groups.items()}
    if "spec-bench" in results:
        results["spec-bench"]["mean_over_categories"] = _mean_over_categories(results)
    return results


def _groups_of(row: Row, identical: set[str]) -> list[str]:
    if row.part == "retries":
        likeness = "identical" if row.item in identical else "differing"
        return [f"retries: {likeness}", f"retries: {likeness} {row.category}"]
    return [row.part] if row.part == row.category else [row.part, f"{row.part}: {row.category}"]


def _of_group(rows: Sequence[Row]) -> dict[str, Any]:
    """Only prompts that every arm of the group has finished count."""
    arms = _in_order(row.arm for row in rows)
    table: Table = {arm: {(row.item, row.repetition): row for row in rows if row.arm == arm} for arm in arms}
    complete = set.intersection(*(set(places) for places in table.values()))
    places = [place for place in _in_order((row.item, row.repetition) for row in rows) if place in complete]
    started = len({(row.item, row.repetition) for row in rows})
    group: dict[str, Any] = {
        "items": _in_order(item for item, _ in places),
        "num_unfinished": started - len(places),
    }
    if places:
        best = _best_transformers(table, places)
        group |= {"best_transformers": best}
        group["arms"] = {arm: _of_arm(table, arm, places, best) for arm in arms}
    return group


def _best_transformers(table: Table, places: list[Place]) -> str | None:
    modes = [arm for arm in table if arm.startswith("transformers-")]
    return max(modes, key=lambda arm: _speed([table[arm][place] for place in places]), default=None)


def _of_arm(table: Table, arm: str, places: list[Place], best: str | None) -> dict[str, Any]:
    rows = [table[arm][place] for place in places]
    result = {
        "num_tokens": sum(len(row.token_ids) for row in rows),
        "tokens_per_second": _rounded(_speed(rows)),
        "decode_tokens_per_second": _rounded(_decode_speed(rows)),
        "acceptance_length": _rounded(
            _share((row.num_decode_tokens for row in rows), (row.num_passes for row in rows))
        ),
        "acceptance_rate": _rounded(
            _share((row.num_accepted_tokens for row in rows), (row.num_draft_tokens for row in rows))
        ),
        "draft_time_share": _rounded(_share((row.draft_time_s for row in rows), (row.time_s for row in rows)), 4),
        "control_time_share": _rounded(_share((row.control_time_s for row in rows), (row.time_s for row in rows)), 4),
        "predicted_over_realised_speed": _rounded(_predicted_over_realised(rows)),
    }
    for name, other in [*((name, name) for name in BASELINES), ("transformers-best", best)]:
        if other is not None and other in table and other != arm:
            result |= _against(name, rows, [table[other][place] for place in places])
    return result


def _against(name: str, ours: list[Row], theirs: list[Row]) -> dict[str, Any]:
    """Ratios of speed with and without prefill, of acceptance length, and how many texts are equal."""
    pairs = list(zip(ours, theirs, strict=True))
    measures = {
        "speed": [(a.item, a.timing.tokens_per_second / b.timing.tokens_per_second) for a, b in pairs],
        "decode_speed": [
            (a.item, a.decode_timing.tokens_per_second / b.decode_timing.tokens_per_second)
            for a, b in pairs
            if a.decode_timing and b.decode_timing
        ],
        "acceptance_length": [
            (a.item, a.acceptance_length / b.acceptance_length)
            for a, b in pairs
            if a.acceptance_length and b.acceptance_length
        ],
    }
    result: dict[str, Any] = {key: _median_over_items(ratios) for key, ratios in measures.items() if ratios}
    return {f"against_{name}": result | {"num_equal_texts": sum(a.token_ids == b.token_ids for a, b in pairs)}}


def _median_over_items(ratios: list[tuple[str, float]]) -> dict[str, float]:
    by_item: dict[str, list[float]] = {}
    for item, ratio in ratios:
        by_item.setdefault(item, []).append(ratio)
    return median_with_interval([statistics.median(values) for values in by_item.values()])


def _mean_over_categories(results: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Arm -> baseline -> mean of the categories' median ratios of speed: each category counts alike."""
    found: dict[str, dict[str, list[float]]] = {}
    for name, group in results.items():
        for arm, values in group.get("arms", {}).items() if name.startswith("spec-bench: ") else ():
            for key, value in values.items():
                if key.startswith("against_"):
                    found.setdefault(arm, {}).setdefault(key, []).append(value["speed"]["median"])
    return {
        arm: {key: round(statistics.mean(ratios), 3) for key, ratios in by_baseline.items()}
        for arm, by_baseline in found.items()
    }


def _speed(rows: list[Row]) -> float:
    return sum(len(row.token_ids) for row in rows) / sum(row.time_s for row in rows)


def _decode_speed(rows: list[Row]) -> float | None:
    timings = [row.decode_timing for row in rows if row.decode_timing]
    return sum(len(one.token_ids) for one in timings) / sum(one.time_s for one in timings) if timings else None


def _predicted_over_realised(rows: list[Row]) -> float | None:
    """Of the decode passes alone; None where nothing was predicted."""
    told = [row for row in rows if row.predicted_time_s and row.predicted_tokens is not None and row.decode_timing]
    predicted = _share((row.predicted_tokens for row in told), (row.predicted_time_s for row in told))
    realised = _decode_speed(told)
    return predicted / realised if predicted is not None and realised else None


def _share(parts: Iterable[float | None], wholes: Iterable[float | None]) -> float | None:
    """Sum over sum; None where something is not told or the whole is nothing."""
    given, total = list(parts), list(wholes)
    if None in given or None in total or not sum(filter(None, total)):
        return None
    return sum(filter(None, given)) / sum(filter(None, total))


def _rounded(value: float | None, digits: int = 3) -> float | None:
    return None if value is None else round(value, digits)


def _in_order(values: Iterable[Any]) -> list[Any]:
    """Each value once, in the order of first appearance."""
    return list(dict.fromkeys(values))
