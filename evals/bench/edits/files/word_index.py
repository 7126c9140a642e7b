"""An index of words over text files, with a small search."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

WORD = re.compile(r"[a-z']+")
STOP_WORDS = frozenset({"a", "an", "and", "in", "is", "of", "or", "the", "to"})


def words_of(text: str) -> Iterator[str]:
    for match in WORD.finditer(text.lower()):
        word = match.group().strip("'")
        if word and word not in STOP_WORDS:
            yield word


class WordIndex:
    """Counts of every word in every document."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[str]] = defaultdict(Counter)
        self._lengths: dict[str, int] = {}

    def add_text(self, name: str, text: str) -> None:
        words = list(words_of(text))
        self._lengths[name] = len(words)
        for word in words:
            self._counts[word][name] += 1

    def add_folder(self, folder: Path) -> int:
        paths = sorted(folder.glob("*.txt"))
        for path in paths:
            self.add_text(path.name, path.read_text(encoding="utf-8"))
        return len(paths)

    def search(self, query: str) -> list[str]:
        scores: Counter[str] = Counter()
        for word in words_of(query):
            for name, count in self._counts.get(word, Counter()).items():
                scores[name] += count / self._lengths[name]
        return [name for name, _ in scores.most_common(10)]

    def most_common(self, number: int = 10) -> list[tuple[str, int]]:
        totals = Counter({word: counts.total() for word, counts in self._counts.items()})
        return totals.most_common(number)

    def __contains__(self, word: str) -> bool:
        return word in self._counts
