"""Sums sales in a CSV file by region and by month."""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from pathlib import Path


@dataclass(frozen=True)
class Sale:
    """One row of the file."""

    day: date
    region: str
    amount: float


def load_sales(path: Path) -> list[Sale]:
    """All rows; the columns are day, region and amount."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file)
        return [Sale(date.fromisoformat(row["day"]), row["region"], float(row["amount"])) for row in rows]


def by_region(sales: Iterable[Sale]) -> dict[str, float]:
    totals: dict[str, float] = defaultdict(float)
    for sale in sales:
        totals[sale.region] += sale.amount
    return dict(totals)


def by_month(sales: Iterable[Sale]) -> dict[str, float]:
    totals: dict[str, float] = defaultdict(float)
    for sale in sales:
        totals[f"{sale.day.year}-{sale.day.month:02d}"] += sale.amount
    return dict(totals)


def format_table(title: str, totals: dict[str, float]) -> str:
    width = max((len(name) for name in totals), default=0)
    lines = [title, "-" * len(title)]
    for name, total in sorted(totals.items()):
        lines.append(f"{name:<{width}}  {total:>12.2f}")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: sales_report.py FILE")
        return 2
    sales = load_sales(Path(arguments[0]))
    print(format_table("Sales by region", by_region(sales)))
    print()
    print(format_table("Sales by month", by_month(sales)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
