"""Runs that a rule shares with a long text: 5 words, or 32 characters, in a row.

Only the rule is cut into runs. A run of 5 words covers a whole block of 3 that starts at every third word of the rule,
one of 32 characters a block of 16, so that a text is searched for a few blocks first and for the runs around a block
only where it has the block.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from loopeng.improve.guards.folding import decoded_parts, fold, split_code

__all__ = ["NUM_CHARS", "NUM_WORDS", "RuleRuns", "Views"]

NUM_WORDS, NUM_CHARS = 5, 32
_NOT_A_WORD = re.compile(r"[\W_]+")
_ASCII_WORDS = {code: " " for code in range(128) if not chr(code).isalnum()} | {ord("'"): None}


@dataclass(frozen=True)
class Views:
    """One text in three ways: its words with a space around each, its letters and digits alone, and all of it."""

    words: str
    compact: str
    written: str

    @classmethod
    def of(cls, text: str) -> Views:
        folded = fold(text).casefold()
        if folded.isascii():
            words = folded.translate(_ASCII_WORDS).split()
        else:
            words = _NOT_A_WORD.sub(" ", folded.replace("'", "").replace("’", "")).split()
        return cls(f" {' '.join(words)} ", "".join(words), " ".join(folded.split()))


_KINDS: tuple[tuple[Callable[[Views], str], bool], ...] = (
    (lambda views: views.words, True),
    (lambda views: views.written, False),
    (lambda views: views.compact, False),
)


class RuleRuns:
    """The runs of one rule that do not stand in any of the ``public`` texts."""

    def __init__(self, rule: str, public: Sequence[str]) -> None:
        told = [Views.of(text) for text in public]
        spellings = [Views.of(text) for text in dict.fromkeys((rule, split_code(rule), *decoded_parts(rule)))]
        self._blocks: list[dict[str, list[str]]] = []
        for view, is_words in _KINDS:
            runs = _word_runs if is_words else _char_runs
            known = [f" {view(text)} " for text in told]
            blocks: dict[str, list[str]] = {}
            for block, run in (pair for spelling in spellings for pair in runs(view(spelling))):
                if not any(run in text for text in known):
                    blocks.setdefault(block, []).append(run)
            self._blocks.append(blocks)

    def shared_with(self, views: Views) -> str | None:
        """What the rule has in common with a text: "a run of 5 words", "32 characters in a row", or None."""
        for (view, is_words), blocks in zip(_KINDS, self._blocks, strict=True):
            searched = view(views)
            hits = [runs for block, runs in blocks.items() if block in searched]
            if any(run in searched for runs in hits for run in runs):
                return f"a run of {NUM_WORDS} words" if is_words else f"{NUM_CHARS} characters in a row"
        return None


def _word_runs(text: str) -> Iterator[tuple[str, str]]:
    """(block, run) of a view of words; a run may be found by more than one block, one is enough."""
    words, size = text.split(), (NUM_WORDS + 1) // 2
    for start in range(len(words) - NUM_WORDS + 1):
        block = -(-start // size) * size
        yield f" {' '.join(words[block : block + size])} ", f" {' '.join(words[start : start + NUM_WORDS])} "


def _char_runs(text: str) -> Iterator[tuple[str, str]]:
    size = NUM_CHARS // 2
    for start in range(len(text) - NUM_CHARS + 1):
        block = -(-start // size) * size
        yield text[block : block + size], text[start : start + NUM_CHARS]
