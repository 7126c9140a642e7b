from __future__ import annotations

import ast
import itertools
import random
from pathlib import Path

import pytest
import torch

from specdec_core import decoder as decoder_module
from specdec_core.drafters import make_drafter
from specdec_core.drafters.null import NullDrafter
from specdec_core.errors import ContextOverflowError, DrafterError, RequestError, VocabularyMismatchError
from specdec_core.models.table import TableModel
from specdec_core.sampling import SamplingParams
from specdec_core.testing import (
    AlternatingDrafter,
    AntiOracleDrafter,
    OracleDrafter,
    OverlongDrafter,
    RandomDrafter,
    assert_lossless,
    generate_ids,
)
from specdec_core.types import Draft
from tests.architecture import Module

VOCAB = 5
ALL_DRAFTERS = [
    OracleDrafter,
    lambda answer: AntiOracleDrafter(answer, VOCAB),
    lambda answer: AlternatingDrafter(answer, VOCAB),
    lambda answer: RandomDrafter(VOCAB, seed=len(answer)),
    OverlongDrafter,
    lambda _: make_drafter("ngram"),
    lambda _: make_drafter("suffix"),
    lambda _: make_drafter(["ngram", "suffix"]),
]
SAMPLINGS = [
    SamplingParams(max_tokens=40),
    SamplingParams(max_tokens=40, temperature=0.9, seed=5),
    SamplingParams(max_tokens=40, temperature=1.3, top_k=3, top_p=0.9, repetition_penalty=1.2, seed=6),
    SamplingParams(max_tokens=40, repetition_penalty=1.4),
]


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=["greedy", "sampled", "filtered", "penalised"])
def test_no_drafter_and_no_draft_length_changes_the_tokens(sampling: SamplingParams) -> None:
    target = TableModel.random(VOCAB, seed=2)
    num_compared = assert_lossless(target, [[0], [1, 2, 3], [4] * 9], ALL_DRAFTERS, sampling, eos_token_ids=[4])
    assert num_compared == 3 * len(ALL_DRAFTERS) * 4


def test_the_check_itself_fails_when_the_target_depends_on_the_pass() -> None:
    """A target whose rows depend on their place in the pass is what fixed geometry exists against."""

    class Leaky(TableModel):
        def decode(self, token_ids):
            rows = super().decode(token_ids).clone()
            rows[1:] = rows[1:].flip(-1)
            return rows

    with pytest.raises(AssertionError, match="plainly"):
        assert_lossless(Leaky.random(VOCAB, seed=2), [[0]], [OracleDrafter], SamplingParams(max_tokens=20))


def test_the_token_that_ends_the_text_inside_a_draft_ends_it_there() -> None:
    """Ids, text and counts are trimmed together; draft tokens past the end are not counted."""
    table = torch.full((6, 6), -50.0)
    for token in range(5):
        table[token, token + 1] = 0  # 0 1 2 3 4 5
    answer = [1, 2, 3, 4, 5]
    generation = generate_ids(
        TableModel(table), [0], SamplingParams(max_tokens=50), OracleDrafter([*answer, 0, 0, 0]), eos_token_ids=[4]
    )
    assert generation.generated_ids == [1, 2, 3, 4]
    assert generation.stopper.finish_reason == "stop"
    stats = generation.stats
    assert (stats.num_decode_passes, stats.num_draft_tokens, stats.num_accepted_tokens) == (1, 3, 3)
    assert stats.num_accepted_by_position == [1, 1, 1]
    assert stats.acceptance_rate == 1.0
    assert stats.acceptance_length == 3.0


@pytest.mark.parametrize("max_tokens", [0, 1, 2, 3, 17])
def test_the_length_is_never_exceeded(max_tokens: int) -> None:
    target = TableModel.random(VOCAB, seed=2)
    generation = generate_ids(target, [0], SamplingParams(max_tokens=max_tokens), OverlongDrafter([1] * 30))
    assert len(generation.generated_ids) == max_tokens
    assert generation.stopper.finish_reason == "length"


def test_the_context_ends_a_text_and_is_never_overrun() -> None:
    target = TableModel.random(VOCAB, seed=2, context_length=12)
    plain = generate_ids(target, [0] * 5, SamplingParams(max_tokens=50))
    assert len(plain.generated_ids) == 7
    drafted = generate_ids(target, [0] * 5, SamplingParams(max_tokens=50), OracleDrafter(plain.generated_ids))
    assert drafted.generated_ids == plain.generated_ids


def test_the_cache_holds_all_but_the_last_token_after_every_round() -> None:
    target = TableModel.random(VOCAB, seed=2)
    generation = generate_ids(target, [0, 1], SamplingParams(max_tokens=20, temperature=1.0), RandomDrafter(VOCAB))
    assert target.cache_length == 2 + len(generation.generated_ids) - 1


def test_counts_of_plain_decoding_are_one_token_per_pass() -> None:
    stats = generate_ids(TableModel.random(VOCAB, seed=2), [0], SamplingParams(max_tokens=9)).stats
    assert (stats.num_generated_tokens, stats.num_decode_passes, stats.acceptance_length) == (9, 8, 1.0)
    assert stats.acceptance_rate is None


class Raising(NullDrafter):
    def __init__(self, method: str) -> None:
        setattr(self, method, self.fail)

    def fail(self, *_: object) -> None:
        raise KeyError("boom")


@pytest.mark.parametrize("method", ["begin", "propose", "observe", "end"])
def test_wherever_a_drafter_raises_it_is_named(method: str) -> None:
    """Only ``propose`` was guarded: a KeyError out of ``begin`` looked like ours."""
    target = TableModel.random(VOCAB, seed=2)
    with pytest.raises(DrafterError, match="drafter 'none' raised KeyError: 'boom'"):
        generate_ids(target, [0], SamplingParams(max_tokens=9), Raising(method))
    assert len(generate_ids(target, [0], SamplingParams(max_tokens=9)).generated_ids) == 9


class Nonsense(NullDrafter):
    def __init__(self, answer) -> None:
        self._answer, self.num_ended = answer, 0

    def propose(self, max_tokens: int) -> Draft:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    def end(self) -> None:
        self.num_ended += 1


@pytest.mark.parametrize(
    "answer",
    [RuntimeError("boom"), Draft((99,)), Draft((-1,)), Draft(("a",)), None],
    ids=["raises", "99", "-1", "a", "None"],
)
def test_a_drafter_that_breaks_is_an_error_and_the_target_stays_usable(answer: object) -> None:
    target, drafter = TableModel.random(VOCAB, seed=2), Nonsense(answer)
    with pytest.raises(DrafterError):
        generate_ids(target, [0], SamplingParams(max_tokens=9), drafter)
    assert drafter.num_ended == 1
    assert len(generate_ids(target, [0], SamplingParams(max_tokens=9)).generated_ids) == 9


@pytest.mark.parametrize(
    ("prompt", "error"),
    [([], RequestError), ([0] * 600, ContextOverflowError), ([0, 77], VocabularyMismatchError)],
    ids=["empty", "too long", "outside"],
)
def test_a_prompt_that_cannot_be_read_is_an_error(prompt: list[int], error: type[Exception]) -> None:
    with pytest.raises(error):
        generate_ids(TableModel.random(VOCAB, seed=2), prompt, SamplingParams())


def test_state_never_leaks_between_calls() -> None:
    target, sampling = TableModel.random(VOCAB, seed=2), SamplingParams(max_tokens=30, temperature=1.0)
    drafter = make_drafter("suffix")
    prompts = [[random.Random(i).randrange(VOCAB) for _ in range(6)] for i in range(4)]
    alone = [generate_ids(target, p, sampling, make_drafter("suffix")).stats.to_dict() for p in prompts]
    shared = [generate_ids(target, p, sampling, drafter).stats.to_dict() for p in prompts]
    for one, other in itertools.product(zip(alone, shared, strict=True), ["num_draft_tokens", "num_accepted_tokens"]):
        assert one[0][other] == one[1][other]


def test_the_round_is_one_page_and_knows_no_kind_of_drafter() -> None:
    """Every drafter is led by the same lines: a special case for one would be a special case for its losses."""
    decoder = Module("specdec_core.decoder", Path(decoder_module.__file__))
    from_drafters = {each.module for each in decoder.imports if each.module.startswith("specdec_core.drafters")}
    assert from_drafters == {"specdec_core.drafters.base"}
    functions = {node.name: node for node in decoder.syntax.body if isinstance(node, ast.FunctionDef)}
    for name in ("_round", "_prefill", "_propose", "_commit", "_account"):
        names = {node.id for node in ast.walk(functions[name]) if isinstance(node, ast.Name)}
        assert names.isdisjoint({"isinstance", "type", "getattr", "hasattr"})
    round_ = functions["_round"]
    assert (round_.end_lineno or 0) - round_.lineno + 1 < 40
    assert not [node for node in ast.walk(round_) if isinstance(node, ast.If | ast.IfExp | ast.Match)]
