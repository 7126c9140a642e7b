"""Names of drafters. Adding one is one file and one line here."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence

from specdec_core.drafters.base import Drafter
from specdec_core.drafters.chain import ChainDrafter
from specdec_core.drafters.ngram import NgramDrafter
from specdec_core.drafters.null import NullDrafter
from specdec_core.drafters.suffix import SuffixDrafter
from specdec_core.errors import RequestError

__all__ = ["DRAFTERS", "DrafterChoice", "make_drafter"]

DRAFTERS: dict[str, Callable[[], Drafter]] = {
    "auto": SuffixDrafter,  # the best that needs nothing but text
    "ngram": NgramDrafter,
    "none": NullDrafter,
    "suffix": SuffixDrafter,
}

DrafterChoice = str | Drafter | Sequence[str | Drafter]


def make_drafter(choice: DrafterChoice) -> Drafter:
    """A drafter from a name, a drafter, or a list of them (asked in order). Raises RequestError on unknown names."""
    if isinstance(choice, str):
        if choice not in DRAFTERS:
            near = difflib.get_close_matches(choice, DRAFTERS, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise RequestError(f"unknown drafter {choice!r}; {hint}known: {', '.join(sorted(DRAFTERS))}")
        return DRAFTERS[choice]()
    if isinstance(choice, Sequence):
        return ChainDrafter([make_drafter(item) for item in choice])
    if not isinstance(choice, Drafter):
        raise RequestError(f"a drafter needs begin, propose, observe, end and a name; {choice!r} lacks some")
    return choice
