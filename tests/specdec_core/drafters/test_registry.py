from __future__ import annotations

import pytest

from specdec_core.drafters import DRAFTERS, Drafter, make_drafter
from specdec_core.drafters.chain import ChainDrafter
from specdec_core.drafters.registry import check_drafter
from specdec_core.errors import RequestError


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
