from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import specdec_core
from specdec_core.drafters import DRAFTERS, Drafter, make_drafter
from specdec_core.drafters.chain import ChainDrafter
from specdec_core.drafters.null import NullDrafter
from specdec_core.drafters.registry import check_drafter
from specdec_core.errors import RequestError
from specdec_core.sampling import SamplingParams
from specdec_core.types import Draft, GenerationRequest
from tests.architecture import Tree
from tests.specdec_core.tiny_models import make_tiny_engine


@pytest.mark.parametrize("name", sorted(DRAFTERS))
def test_every_name_makes_a_drafter(name: str) -> None:
    assert isinstance(make_drafter(name), Drafter)


def test_a_list_makes_a_chain_in_its_order() -> None:
    chain = make_drafter(["ngram", make_drafter("suffix")])
    assert isinstance(chain, ChainDrafter)
    assert chain.name == "ngram+suffix"


def test_an_unknown_name_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(RequestError, match="did you mean 'suffix'"):
        make_drafter("sufix")


def test_a_name_with_an_argument_is_checked_before_anything_is_loaded() -> None:
    check_drafter(["suffix", "model:some/where"])
    for wrong in ("model:", "modle:some/where", "suffix:x", ["suffix", "model:"]):
        with pytest.raises(RequestError, match="unknown drafter"):
            check_drafter(wrong)


def test_an_object_that_is_no_drafter_is_refused() -> None:
    with pytest.raises(RequestError, match="begin, propose, observe, end"):
        make_drafter(object())  # type: ignore[arg-type]


class Parrot(NullDrafter):
    """Says the last token again: all that a new drafter needs to be."""

    name = "parrot"

    def observe(self, token_ids: Sequence[int]) -> None:
        self._last = token_ids[-1]

    def propose(self, max_tokens: int) -> Draft:
        return Draft((self._last,) * max_tokens, self.name) if hasattr(self, "_last") else Draft()


def test_a_drafter_is_added_by_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name, chain, engine, counts and messages all follow from the registry."""
    monkeypatch.setitem(DRAFTERS, "parrot", Parrot)
    request = GenerationRequest(prompt="abc", sampling=SamplingParams(max_tokens=24))
    plain = make_tiny_engine("none").generate(request)
    for choice in ("parrot", ["parrot", "suffix"]):
        output = make_tiny_engine(choice).generate(request)
        assert output.token_ids == plain.token_ids
        assert output.stats.sources["parrot"].time_s > 0
    with pytest.raises(RequestError, match="did you mean 'parrot'"):
        make_drafter("parot")


def test_only_the_registry_names_the_kinds_of_drafters() -> None:
    """What else imports one would have to be changed for a new one. The null drafter is plain decoding, not a kind."""
    tree = Tree(Path(specdec_core.__file__).parent)
    kinds = {f"specdec_core.drafters.{name}" for name in ("ngram", "suffix", "model")}
    importers = {module.name for module in tree.modules.values() for each in module.imports if each.module in kinds}
    assert importers == {"specdec_core.drafters.registry"}
