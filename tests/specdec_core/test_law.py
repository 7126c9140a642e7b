"""The output's law is that of plain decoding, for every drafter, mode and draft length; biased mutants are caught.

Seeds are fixed, so a test that passes cannot fail by chance later. The limit shares one error rate of 0.001 among all
cases of the whole product (Bonferroni).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import pytest
import torch

from specdec_core.noise import Stream, draft_stream
from specdec_core.sampling import LogitsPipeline
from specdec_core.testing import DrawingDrafter, generate_ids
from specdec_core.types import Draft
from specdec_core.verification import Verdict, Verify, verify_match, verify_rejection
from tests.specdec_core.law_cases import (
    DRAFT_LENGTHS,
    DRAFT_TABLE,
    DRAFTERS,
    MODES,
    PROMPT,
    SETTINGS,
    TARGET,
    Case,
    answers,
    law_p_value,
    noise,
    num_changed_texts,
    pipeline_of,
)

PRODUCT = [Case(*each) for each in itertools.product(DRAFTERS, MODES, DRAFT_LENGTHS, SETTINGS)]
LIMIT = 1e-3 / len(PRODUCT)
NUM_DRAWS = 700  # enough for the mutants below, at the same limit


def covering_design() -> Iterator[Case]:
    """Every drafter with every draft length, mode and setting; modes, lengths and settings in all pairs too."""
    settings = list(SETTINGS)
    for (row, drafter), length in itertools.product(enumerate(DRAFTERS), DRAFT_LENGTHS):
        yield Case(drafter, MODES[(row + length) % 2], length, settings[(row + length) % len(settings)])


def contradiction(case: Case, found: list[tuple[int, ...]]) -> str | None:
    """What is wrong with the answers, if anything: law in both modes, and the very text in match mode."""
    if (p := law_p_value(case, found)) < LIMIT:
        return f"law: p = {p:.2g}"
    if case.mode == "match" and (num_changed := num_changed_texts(case, found)):
        return f"text: {num_changed} of {len(found)} differ from plain decoding"
    return None


@pytest.mark.parametrize("case", list(covering_design()), ids=str)
def test_the_joint_law_is_that_of_plain_decoding(case: Case) -> None:
    assert contradiction(case, answers(case, NUM_DRAWS)) is None


@pytest.mark.slow
@pytest.mark.parametrize("case", PRODUCT, ids=str)
def test_the_joint_law_in_the_whole_product(case: Case) -> None:
    assert contradiction(case, answers(case, 2 * NUM_DRAWS)) is None


def test_the_design_covers_all_pairs() -> None:
    fields = ("drafter", "mode", "draft_length", "setting")
    for one, other in itertools.combinations(fields, 2):
        wanted = {(getattr(case, one), getattr(case, other)) for case in PRODUCT}
        assert {(getattr(case, one), getattr(case, other)) for case in covering_design()} == wanted, (one, other)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("setting", SETTINGS)
def test_what_the_harness_remembers_is_what_the_code_computes(setting: str, mode) -> None:
    case, remembered = Case("drawing", mode, 3, setting), pipeline_of(setting)
    for seed, answer in enumerate(answers(case, 25)):
        pipeline = LogitsPipeline(
            remembered.params.model_copy(update={"seed": seed}), PROMPT, bad_word_ids=SETTINGS[setting][1]
        )
        drafter = DrawingDrafter(DRAFT_TABLE)
        generation = generate_ids(TARGET, PROMPT, pipeline, drafter, num_speculative_tokens=3, verification=mode)
        assert tuple(generation.generated_ids) == answer
        assert generation.stats.num_draft_tokens > 0


# Match mode, broken. Each takes the state of one generation and returns a verifier.


class Rounds:
    """What a wrong key could be made of: rounds and rows so far."""

    def __init__(self) -> None:
        self.num_rounds, self.num_rows, self.row = 0, 0, 0


def walk(choose: Callable[[LogitsPipeline, torch.Tensor, list[int], Rounds], int]) -> Callable[[], Verify]:
    """A verifier by match whose choice is ``choose``."""

    def make() -> Verify:
        rounds = Rounds()

        def verify(logits, draft, pipeline, generated_ids) -> Verdict:
            prefix, start, last = list(generated_ids), len(generated_ids), "bonus"
            for row in range(len(draft.token_ids) + 1):
                rounds.row = row
                prefix.append(choose(pipeline, logits[row], prefix, rounds))
                if row < len(draft.token_ids) and prefix[-1] != draft.token_ids[row]:
                    last = "recovered"
                    break
            rounds.num_rounds += 1
            rounds.num_rows += len(draft.token_ids) + 1
            return Verdict(tuple(prefix[start:]), len(prefix) - start - 1, last)

        return verify

    return make


def keyed_by(index: Callable[[list[int], Rounds], int]) -> Callable[[], Verify]:
    def choose(pipeline, logits, prefix, rounds) -> int:
        return int(pipeline._race(pipeline.process(logits, prefix), index(prefix, rounds)).argmax())

    return walk(choose)


def bonus_unfiltered() -> Verify:
    def verify(logits, draft, pipeline, generated_ids) -> Verdict:
        verdict = verify_match(logits, draft, pipeline, generated_ids)
        if verdict.last == "recovered":
            return verdict
        prefix = [*generated_ids, *draft.token_ids]
        raw = logits[len(draft.token_ids)] / pipeline.params.temperature
        bonus = int(pipeline._race(raw, len(prefix)).argmax())
        return Verdict((*draft.token_ids, bonus), verdict.num_accepted, "bonus")

    return verify


def top_two_accepted() -> Verify:
    def verify(logits, draft, pipeline, generated_ids) -> Verdict:
        prefix = list(generated_ids)
        for row, token in enumerate(draft.token_ids):
            if token not in pipeline.scores(logits[row], prefix).topk(2).indices.tolist():
                prefix.append(pipeline.choose(logits[row], prefix))
                return Verdict(tuple(prefix[len(generated_ids) :]), row, "recovered")
            prefix.append(token)
        prefix.append(pipeline.choose(logits[len(draft.token_ids)], prefix))
        return Verdict(tuple(prefix[len(generated_ids) :]), len(draft.token_ids), "bonus")

    return verify


def without_draft_prefix(pipeline, logits, prefix, rounds) -> int:
    processed = pipeline.process(logits, prefix[: len(prefix) - rounds.row])
    return int(pipeline._race(processed, len(prefix)).argmax())


MATCH_MUTANTS: dict[str, tuple[Callable[[], Verify], str]] = {
    "noise keyed by round": (keyed_by(lambda prefix, rounds: rounds.num_rounds), "law"),
    "noise keyed by row": (keyed_by(lambda prefix, rounds: rounds.row), "law"),
    # Fresh noise is fresh noise: the law is right, but the text hangs on the drafter.
    "noise advanced by rejected rows": (keyed_by(lambda prefix, rounds: rounds.num_rows + rounds.row + 1), "text"),
    "top two accepted": (top_two_accepted, "law"),
    "bonus sampled unfiltered": (bonus_unfiltered, "law"),
    "penalties without the draft prefix": (walk(without_draft_prefix), "law"),
}


@pytest.mark.parametrize("mutant", MATCH_MUTANTS)
def test_a_broken_match_fails_the_same_test(mutant: str) -> None:
    make_verify, broken = MATCH_MUTANTS[mutant]
    case = Case("drawing", "match", 3, "everything")
    found = contradiction(case, answers(case, NUM_DRAWS, make_verify))
    assert found is not None
    assert found.startswith(broken)


def test_the_walk_that_mutants_are_made_of_is_right_by_itself() -> None:
    case = Case("drawing", "match", 3, "everything")
    right = keyed_by(lambda prefix, rounds: len(prefix))
    assert contradiction(case, answers(case, NUM_DRAWS, right)) is None


# Rejection mode, broken: in the verifier, or in a drafter that does not tell the law it drew from.


def reject_with(residual: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Callable[[], Verify]:
    """verify_rejection with another residual."""

    def verify(logits, draft, pipeline, generated_ids) -> Verdict:
        verdict = verify_rejection(logits, draft, pipeline, generated_ids)
        if verdict.last == "bonus":
            return verdict
        row, prefix = verdict.num_accepted, [*generated_ids, *verdict.token_ids[:-1]]
        left = residual(pipeline.law(logits[row], prefix), draft.probs[row])
        recovered = pipeline.draw(left, len(prefix), Stream.RESIDUAL)
        return Verdict((*verdict.token_ids[:-1], recovered), row, "recovered")

    return lambda: verify


def exact_residual(law: torch.Tensor, draft_law: torch.Tensor) -> torch.Tensor:
    return (law - draft_law).clamp(min=0)


class ArgmaxDrafter(DrawingDrafter):
    """Takes the likeliest token and tells the law it was likeliest in."""

    def _next(self, prefix):
        _, law = super()._next(prefix)
        return int(law.argmax()), law


class LastUnsureDropped(DrawingDrafter):
    """Leaves out a token because of what it is, as a threshold on its own probability does."""

    def propose(self, max_tokens: int) -> Draft:
        draft = super().propose(max_tokens)
        sure = [float(draft.probs[row][token]) >= 0.3 for row, token in enumerate(draft.token_ids)]
        kept = sure.index(False) if False in sure else len(sure)
        return Draft(draft.token_ids[:kept], draft.source, draft.probs[:kept] if kept else None)


class UnsureLast(DrawingDrafter):
    """Ends a draft after an unsure token: the token stays, so nothing is biased."""

    def propose(self, max_tokens: int) -> Draft:
        draft = super().propose(max_tokens)
        sure = [float(draft.probs[row][token]) >= 0.3 for row, token in enumerate(draft.token_ids)]
        kept = sure.index(False) + 1 if False in sure else len(sure)
        return Draft(draft.token_ids[:kept], draft.source, draft.probs[:kept])


REJECTION_MUTANTS: dict[str, tuple[Callable[[], Verify] | None, type[DrawingDrafter]]] = {
    "residual by softmax": (reject_with(lambda p, q: exact_residual(p, q).softmax(-1)), DrawingDrafter),
    "drawn from p instead of the residual": (reject_with(lambda p, q: p), DrawingDrafter),
    "likeliest token with the raw law": (None, ArgmaxDrafter),
    "own unsure last token dropped": (None, LastUnsureDropped),
}
REJECTION_CASE = Case("drawing", "rejection", 3, "plain")


@pytest.mark.parametrize("mutant", REJECTION_MUTANTS)
def test_a_broken_rejection_fails_the_same_test(mutant: str) -> None:
    make_verify, drafter = REJECTION_MUTANTS[mutant]
    found = answers(REJECTION_CASE, 2 * NUM_DRAWS, make_verify, lambda answer, seed: drafter(DRAFT_TABLE))
    assert contradiction(REJECTION_CASE, found) is not None


def test_acceptance_by_the_noise_of_the_draft_fails_the_same_test(monkeypatch: pytest.MonkeyPatch) -> None:
    def shared(seed: int, index: int, stream: int) -> float:
        return math.exp(
            -math.exp(-float(noise(seed, index, draft_stream(1))[0]))
        )  # uniform, but the first draft knew it

    monkeypatch.setattr("specdec_core.verification.position_uniform", shared)
    assert contradiction(REJECTION_CASE, answers(REJECTION_CASE, 2 * NUM_DRAWS)) is not None


@pytest.mark.parametrize(
    ("make_verify", "drafter"), [(reject_with(exact_residual), DrawingDrafter), (None, UnsureLast)]
)
def test_what_the_mutants_are_made_of_is_right_by_itself(make_verify, drafter) -> None:
    found = answers(REJECTION_CASE, 2 * NUM_DRAWS, make_verify, lambda answer, seed: drafter(DRAFT_TABLE))
    assert contradiction(REJECTION_CASE, found) is None


def test_rejection_without_drafts_is_the_text_of_plain_decoding() -> None:
    case = Case("none", "rejection", 4, "everything")
    assert num_changed_texts(case, answers(case, 100)) == 0


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_rejection_at_temperature_zero_is_greedy(drafter: str) -> None:
    for prompt in ([0], [1, 2, 3], [3, 3, 3]):
        params = pipeline_of("penalised").params.model_copy(update={"temperature": 0.0, "max_tokens": 30})
        plain = generate_ids(TARGET, prompt, params).generated_ids
        made = DRAFTERS[drafter](tuple(plain), 0)
        found = generate_ids(TARGET, prompt, params, made, num_speculative_tokens=4, verification="rejection")
        assert found.generated_ids == plain
