"""Names of drafters. Adding one is one file and one line here."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence

from specdec_core.drafters.base import Drafter
from specdec_core.drafters.chain import ChainDrafter
from specdec_core.drafters.model import load_model_drafter
from specdec_core.drafters.ngram import NgramDrafter
from specdec_core.drafters.null import NullDrafter
from specdec_core.drafters.suffix import SuffixDrafter
from specdec_core.errors import RequestError
from specdec_core.loading import LoadedModel

__all__ = ["DRAFTERS", "DRAFTERS_OF", "DrafterChoice", "check_drafter", "make_drafter"]

DRAFTERS: dict[str, Callable[[], Drafter]] = {
    "auto": SuffixDrafter,  # the best that needs nothing but text
    "ngram": NgramDrafter,
    "none": NullDrafter,
    "suffix": SuffixDrafter,
}

DRAFTERS_OF: dict[str, Callable[[str, LoadedModel | None], Drafter]] = {  # "kind:argument"
    "model": load_model_drafter,
}

DrafterChoice = str | Drafter | Sequence[str | Drafter]


def make_drafter(choice: DrafterChoice, *, target_model: LoadedModel | None = None) -> Drafter:
    """A drafter from a name, a drafter, or a list of them (asked in order).

    ``"model:<reference>"`` loads a smaller model (embedded name, folder, GGUF file or hub id) and needs the
    ``target_model`` that it will draft for.

    Raises RequestError on unknown names, and what loading a model raises.
    """
    check_drafter(choice)
    if isinstance(choice, str):
        kind, colon, argument = choice.partition(":")
        return DRAFTERS_OF[kind](argument, target_model) if colon else DRAFTERS[choice]()
    if isinstance(choice, Sequence):
        return ChainDrafter([make_drafter(item, target_model=target_model) for item in choice])
    return choice


def check_drafter(choice: DrafterChoice) -> None:
    """Raise RequestError where ``choice`` names no drafter; nothing is loaded."""
    if isinstance(choice, str):
        kind, _, argument = choice.partition(":")
        if choice not in DRAFTERS and not (kind in DRAFTERS_OF and argument):
            known = [*DRAFTERS, *(f"{kind}:<reference>" for kind in DRAFTERS_OF)]
            near = difflib.get_close_matches(choice, known, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise RequestError(f"unknown drafter {choice!r}; {hint}known: {', '.join(sorted(known))}")
    elif isinstance(choice, Sequence):
        if not choice:
            raise RequestError("no drafter in the list: name one, or choose 'none' for plain decoding")
        for item in choice:
            check_drafter(item)
    elif not isinstance(choice, Drafter):
        raise RequestError(f"a drafter needs begin, propose, observe, end and a name; {choice!r} lacks some")
