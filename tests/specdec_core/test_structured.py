"""Grammars over the tiny model: masks, forced tokens, ends, refusals; speculative ids are plain ids."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from specdec_core.controller import FixedLength
from specdec_core.drafters import DraftContext, make_drafter
from specdec_core.drafters.null import NullDrafter
from specdec_core.engine import Engine
from specdec_core.errors import RequestError
from specdec_core.loading import LoadedModel
from specdec_core.metrics import NumericsFingerprint
from specdec_core.sampling import LogitsPipeline, SamplingParams
from specdec_core.stopping import StopChecker
from specdec_core.structured import ForcedDrafter, GrammarConstraint, make_constraint
from specdec_core.testing import AlternatingDrafter, OracleDrafter, RandomDrafter, SilentDrafter
from specdec_core.types import Draft, GenerationOutput, GenerationRequest, StructuredOutput
from tests.specdec_core.grammar_forms import FORMS, fits
from tests.specdec_core.grammar_tokenizer import NUM_PADDED, SPELLED, GrammarTinyTokenizer
from tests.specdec_core.tiny_models import TinyTokenizer, make_tiny_llama

VOCAB_SIZE = len(SPELLED) + NUM_PADDED
END, SEP = 0, 1
EACH_FORM = pytest.mark.parametrize("name", FORMS)
TOKENIZER = GrammarTinyTokenizer()
CONTEXT = DraftContext((1,), (), LogitsPipeline(SamplingParams()))


def constraint_for(name: str) -> GrammarConstraint:
    return make_constraint(FORMS[name][0], TOKENIZER, VOCAB_SIZE)


def by_regex(regex: str, tokenizer: TinyTokenizer = TOKENIZER) -> GrammarConstraint:
    return make_constraint(StructuredOutput(regex=regex), tokenizer, VOCAB_SIZE)


def ids_of(mask: torch.Tensor) -> list[int]:
    return mask.nonzero().squeeze(-1).tolist()


def walk(constraint: GrammarConstraint, seed: int, max_tokens: int = 60) -> list[int]:
    """A random text of the grammar, without its end-of-sequence token; ends are taken half of the time."""
    choice, ids = random.Random(seed), []
    while len(ids) < max_tokens and not constraint.is_complete(ids):
        options = ids_of(constraint.allowed(ids))
        if END in options and (len(options) == 1 or choice.random() < 0.5):
            break
        ids.append(choice.choice([token_id for token_id in options if token_id != END]))
    return ids


@EACH_FORM
def test_every_text_that_the_masks_let_through_has_the_form(name: str) -> None:
    num_finished = 0
    for seed in range(30):
        constraint = constraint_for(name)
        ids = walk(constraint, seed)
        if constraint.allowed(ids)[END]:
            num_finished += 1
            assert fits(FORMS[name], TOKENIZER.decode(ids)), TOKENIZER.decode(ids)
    assert num_finished >= 5


@EACH_FORM
def test_the_end_is_allowed_exactly_where_the_text_is_whole_and_no_other_special_or_padded_id_ever(name: str) -> None:
    for seed in range(5):
        constraint = constraint_for(name)
        ids = walk(constraint, seed)
        for length in range(len(ids) + 1):
            mask = constraint.allowed(ids[:length])
            assert mask.shape == (VOCAB_SIZE,) and mask.dtype == torch.bool
            assert not mask[SEP] and not mask[len(SPELLED) :].any()
            assert bool(mask[END]) == _is_whole(name, TOKENIZER.decode(ids[:length]))
            if constraint.is_complete(ids[:length]):
                assert ids_of(mask) == [END]


def _is_whole(name: str, text: str) -> bool:
    try:
        return fits(FORMS[name], text)
    except (ValueError, LookupError, AssertionError):
        return False


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_mask_depends_on_the_prefix_and_not_on_what_was_asked_before(data: st.DataObject) -> None:
    """Prefixes of several texts, which share beginnings, in any order: rejected drafts and much more."""
    name = data.draw(st.sampled_from(sorted(FORMS)))
    asked = constraint_for(name)
    texts = [walk(asked, data.draw(st.integers(0, 99)), 25) for _ in range(3)]
    for _ in range(12):
        text = data.draw(st.sampled_from(texts))
        prefix = text[: data.draw(st.integers(0, len(text)))]
        question = data.draw(st.sampled_from(["allowed", "forced", "is_complete", "num_possible"]))
        fresh = constraint_for(name)
        if question == "allowed":
            assert torch.equal(asked.allowed(prefix), fresh.allowed(prefix))
        elif question == "forced":
            assert asked.forced(prefix, 9) == fresh.forced(prefix, 9)
        elif question == "is_complete":
            assert asked.is_complete(prefix) == fresh.is_complete(prefix)
        else:
            guess = data.draw(st.one_of(st.just(text), st.lists(st.integers(0, VOCAB_SIZE + 5), max_size=4)))
            assert asked.num_possible(prefix, guess) == fresh.num_possible(prefix, guess)


@EACH_FORM
def test_a_forced_token_is_the_only_one_that_its_mask_allows(name: str) -> None:
    """So a forced draft is always accepted."""
    constraint, num_forced = constraint_for(name), 0
    for seed in range(8):
        ids = walk(constraint, seed)
        for length in range(len(ids)):
            forced = constraint.forced(ids[:length], 9)
            assert constraint.forced(ids[:length], 2) == forced[:2]
            for index, token_id in enumerate(forced):
                assert ids_of(constraint.allowed([*ids[:length], *forced[:index]])) == [token_id]
            num_forced += len(forced)
    assert num_forced > 0 or name in ("integer", "list", "object")


def test_after_the_end_only_the_end_may_follow() -> None:
    """A draft may hold an end-of-sequence token in its middle, and rows after it are asked about."""
    constraint = by_regex("[ab]{1,4}")
    a = SPELLED.index("a")
    for prefix in ([a, END], [a, END, a], [a, END, END, 96]):
        assert ids_of(constraint.allowed(prefix)) == [END]
        assert constraint.is_complete(prefix) and constraint.forced(prefix, 4) == ()
        assert constraint.num_possible(prefix, [a]) == 0
    assert ids_of(constraint.allowed([a])) == [END, a, SPELLED.index("b")]


@pytest.mark.parametrize("wrong", [[96], [-1], [1 << 40], [SEP], [4, 4], [2, 2, 2, 2, 2]])
def test_a_prefix_outside_the_grammar_is_told_and_forgotten(wrong: list[int]) -> None:
    constraint = by_regex("[ab]{1,4}")
    with pytest.raises(RequestError, match=r"does not allow token .* at index \d"):
        constraint.allowed(wrong)
    assert SPELLED[3] == "b" and constraint.allowed([2, 3])[END]


def test_filters_and_penalties_work_on_what_the_grammar_leaves() -> None:
    """The likeliest ids of all are forbidden: top-k and top-p choose among the others, in any draw."""
    constraint = by_regex("[ab]{9}")
    logits = torch.linspace(0, 30, VOCAB_SIZE)
    a, b = SPELLED.index("a"), SPELLED.index("b")
    for change in ({"top_k": 1}, {"top_p": 0.01}, {"repetition_penalty": 1.5}, {"temperature": 0.0}):
        params = SamplingParams(**{"temperature": 5.0} | change)
        processed = LogitsPipeline(params, (a,), constraint).process(logits, (a, a))
        assert set(ids_of(torch.isfinite(processed))) <= {a, b}
    filtered = LogitsPipeline(SamplingParams(temperature=1.0, top_k=1), (), constraint).process(logits, ())
    assert ids_of(torch.isfinite(filtered)) == [b]


# Generations


@pytest.fixture(scope="module")
def tiny() -> Iterator[LoadedModel]:
    """The tiny model with passes of every width, in one thread."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    target = make_tiny_llama(width=32, narrow_widths=(4, 8, 16), context_length=256)
    fingerprint = NumericsFingerprint("bitwise", 32, 64, 64, "float64", "cpu:test", 1, torch.__version__, "tiny")
    device, dtype = target.network.device, target.network.dtype
    yield LoadedModel(target, TOKENIZER, fingerprint, device, dtype, target.geometry, ("for tests",), "tiny")
    torch.set_num_threads(num_threads)


def request(structured: StructuredOutput, **sampling) -> GenerationRequest:
    prompt_ids = tuple(TOKENIZER.encode('{"name": "red", "home": '))
    sampling = {"max_tokens": 32} | sampling
    return GenerationRequest(prompt_token_ids=prompt_ids, structured=structured, sampling=SamplingParams(**sampling))


def plainly(model: LoadedModel, asked: GenerationRequest) -> GenerationOutput:
    return Engine(model, drafter="none").generate(asked)


@EACH_FORM
@pytest.mark.parametrize(
    "sampling",
    [{}, {"temperature": 1.0, "seed": 3}, {"temperature": 2.0, "top_k": 9, "repetition_penalty": 1.3, "seed": 8}],
    ids=["greedy", "sampled", "filtered"],
)
def test_drafts_change_passes_and_never_ids(tiny: LoadedModel, name: str, sampling: dict) -> None:
    asked = request(FORMS[name][0], **sampling)
    plain = plainly(tiny, asked)
    assert plain.finish_reason == "length" or fits(FORMS[name], plain.text)
    assert plain.stats.num_draft_tokens == 0
    for draft_length in (1, 3, 31):
        for drafter in (
            "suffix",
            SilentDrafter(),
            OracleDrafter(plain.token_ids),
            AlternatingDrafter(plain.token_ids, VOCAB_SIZE),
            RandomDrafter(VOCAB_SIZE, seed=draft_length),
        ):
            output = Engine(tiny, drafter=drafter, num_speculative_tokens=draft_length).generate(asked)
            assert output.token_ids == plain.token_ids
            assert (output.text, output.finish_reason) == (plain.text, plain.finish_reason)
            if isinstance(drafter, SilentDrafter):  # nothing but forced tokens
                assert output.stats.num_accepted_tokens == output.stats.num_draft_tokens


def test_forced_tokens_are_drafts_that_cost_nothing(tiny: LoadedModel) -> None:
    asked = request(FORMS["pattern"][0])
    plain, output = plainly(tiny, asked), Engine(tiny, drafter=SilentDrafter(), policy=FixedLength()).generate(asked)
    assert output.token_ids == plain.token_ids
    assert output.stats.acceptance_rate == 1
    assert output.stats.num_decode_passes < plain.stats.num_decode_passes


def test_a_complete_text_ends_at_once_also_with_the_last_token_there_is(tiny: LoadedModel) -> None:
    whole = plainly(tiny, request(FORMS["pattern"][0]))
    assert whole.finish_reason == "stop" and whole.token_ids[-1] != END
    exactly = plainly(tiny, request(FORMS["pattern"][0], max_tokens=len(whole.token_ids)))
    assert (exactly.token_ids, exactly.finish_reason) == (whole.token_ids, "stop")
    for drafter in ("none", "suffix"):
        asked = request(FORMS["pattern"][0], max_tokens=len(whole.token_ids) - 1)
        short = Engine(tiny, drafter=drafter).generate(asked)
        assert short.finish_reason == "length"
        assert whole.text.startswith(short.text) and short.text != whole.text
    assert plainly(tiny, request(FORMS["pattern"][0], max_tokens=0)).finish_reason == "length"


def test_a_text_that_could_go_on_ends_where_the_model_ends_it(tiny: LoadedModel) -> None:
    ends = [plainly(tiny, request(StructuredOutput(regex="[0-9]+"), temperature=1.0, seed=s)) for s in range(8)]
    ended = [output for output in ends if output.finish_reason == "stop"]
    assert ended and all(output.token_ids[-1] == END and output.text.isdigit() for output in ended)


def test_a_stop_string_still_ends_the_text(tiny: LoadedModel) -> None:
    asked = request(FORMS["pattern"][0], stop=('code"',))
    for drafter in ("none", "suffix", SilentDrafter()):
        output = Engine(tiny, drafter=drafter).generate(asked)
        assert (output.text, output.stop_string, output.finish_reason) == ('{"', 'code"', "stop")


def test_the_stop_checker_asks_for_completeness_after_stop_strings_and_before_the_length() -> None:
    checker = StopChecker(
        decode=lambda ids: "".join(map(chr, ids)), max_tokens=3, stop=["b"], is_complete=lambda ids: len(ids) == 3
    )
    assert [checker.push(ord(char)) for char in "aac"] == [False, False, True]
    assert (checker.text, checker.finish_reason, checker.stop_string) == ("aac", "stop", None)
    checker = StopChecker(
        decode=lambda ids: "".join(map(chr, ids)), max_tokens=9, stop=["b"], is_complete=lambda ids: len(ids) == 2
    )
    assert [checker.push(ord(char)) for char in "ab"] == [False, True]
    assert (checker.text, checker.stop_string) == ("a", "b")


# The drafter


class Saying(NullDrafter):
    """Always the same draft."""

    name = "saying"

    def __init__(self, text: str, probs: torch.Tensor | None = None) -> None:
        self._draft = Draft(tuple(TOKENIZER.encode(text)), self.name, probs)

    def propose(self, max_tokens: int) -> Draft:
        return self._draft


def proposed(drafter: Saying, regex: str, seen: str = "", max_tokens: int = 9) -> tuple[str, str]:
    forcing = ForcedDrafter(drafter, by_regex(regex))
    for _ in range(2):  # a second request begins anew
        forcing.begin(CONTEXT)
        forcing.observe(TOKENIZER.encode(seen))
        draft = forcing.propose(max_tokens)
        forcing.end()
    return TOKENIZER.decode(draft.token_ids), draft.source


def test_a_draft_is_cut_where_the_grammar_refuses_it_and_what_is_forced_goes_around_it() -> None:
    assert proposed(Saying("abx"), "[ab]{3}") == ("ab", "saying")
    assert proposed(Saying("x"), "[ab]{3}") == ("", "forced")
    assert proposed(Saying("x"), "c[ab]{3}") == ("c", "forced")
    assert proposed(Saying("cab"), "c[ab]{2}") == ("cab", "saying")
    assert proposed(Saying("ax"), "[ab]cd[ab]") == ("acd", "saying")
    assert proposed(Saying("ax"), "[ab]cd[ab]", max_tokens=2) == ("ac", "saying")
    assert proposed(Saying("b"), "[ab]{2}cd", seen="a") == ("bcd", "saying")


def test_a_drawn_draft_is_never_cut_by_its_tokens() -> None:
    """Under rejection, p replaces the residual where a draft is cut: a cut by what was drawn bends the law."""
    drawn = Saying("abx", torch.full((3, VOCAB_SIZE), 1 / VOCAB_SIZE))
    assert proposed(drawn, "[ab]{3}") == ("abx", "saying")
    assert proposed(drawn, "a[ab]{3}") == ("a", "forced")
    assert ForcedDrafter(make_drafter("ngram"), by_regex("a")).name == "forced+ngram"


# What is refused


@pytest.mark.parametrize(
    ("structured", "says"),
    [
        ({"json_schema": {"type": "strng"}}, r"json_schema: \$: Invalid type: strng"),
        (
            {"json_schema": {"properties": {"a": {"items": {"type": 7}}}}},
            r"json_schema: \$\.properties\.a\.items: type",
        ),
        ({"json_schema": {"items": {"uniqueItems": True}}}, r"\$\.items: keyword 'uniqueItems' is not supported"),
        ({"json_schema": {"anyOf": [{}, {"minLenght": 3}]}}, r"\$\.anyOf\[1\]: keyword 'minLenght' is not supported"),
        ({"json_schema": {"$defs": {"x": {"not": {}}}}}, r"\$\.\$defs\.x: keyword 'not'"),
        ({"json_schema": {"x-guidance": {"lenient": True}}}, "x-guidance"),
        ({"json_schema": {"additionalProperties": {"format": "weird"}}}, r"\$\.additionalProperties: Unknown format"),
        (
            {"json_schema": {"prefixItems": [{"pattern": "a(?=b)"}]}},
            r"\$\.prefixItems\[0\]: at character 2: look",
        ),
        ({"json_schema": {"$ref": "#/$defs/none"}}, "does not exist"),
        ({"json_schema": {"$ref": "https://example.com/a.json"}}, "example.com"),
        ({"json_schema": {"minimum": 5, "maximum": 3, "type": "integer"}}, "Unsatisfiable"),
        ({"json_schema": {"oneOf": [{"type": "integer"}, {"type": "number"}]}}, "oneOf"),
        ({"json_schema": {"type": "object", "minProperties": 2}}, "minProperties"),
        ({"json_schema": {"const": "\ud800"}}, "json_schema"),
        ({"json_schema": {"const": object()}}, "json_schema"),
        ({"regex": "ab(c"}, "regex: at character 3: unclosed group"),
        ({"regex": r"\bx"}, "lookarounds"),
        ({"regex": r"[^\s\S]"}, "cannot go on after 0 tokens"),
    ],
)
def test_a_wrong_form_is_told_with_its_place(tiny: LoadedModel, structured: dict, says: str) -> None:
    engine = Engine(tiny)
    with pytest.raises(RequestError, match=says) as raised:
        engine.generate(request(StructuredOutput(**structured)))
    assert "\n" not in str(raised.value)
    assert engine.generate(request(FORMS["integer"][0])).text


@pytest.mark.parametrize(
    ("structured", "says"),
    [
        ({}, "exactly one of json_schema, json_object and regex, not none"),
        ({"regex": "a", "json_object": True}, "exactly one"),
        ({"regex": "a", "json_schema": {}}, "exactly one"),
        ({"json_schema": "{not JSON"}, "not JSON: .* line 1 column 2"),
        ({"json_schema": "[1]"}, "dictionary"),
        ({"grammar": "a"}, "grammar"),
    ],
)
def test_exactly_one_form_is_given(structured: dict, says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        GenerationRequest(prompt="a", structured=structured)


def test_a_schema_may_be_json_text_and_may_describe_itself() -> None:
    text = '{"$schema": "http://json-schema.org/draft-07/schema#", "type": "boolean", "default": true}'
    constraint = make_constraint(StructuredOutput(json_schema=text), TOKENIZER, VOCAB_SIZE)
    assert TOKENIZER.decode(walk(constraint, 0)) in ("true", "false")


class Endless(GrammarTinyTokenizer):
    eos_token_ids = frozenset()


class Broken(GrammarTinyTokenizer):
    def fast_tokenizer_json(self) -> str:
        return '{"version": "1.0"}'


@pytest.mark.parametrize(
    ("tokenizer", "says"),
    [(TinyTokenizer(), "fast_tokenizer_json"), (Endless(), "end-of-sequence"), (Broken(), "cannot use this model's")],
)
def test_a_tokenizer_without_a_use_for_grammars_is_refused(tokenizer: TinyTokenizer, says: str) -> None:
    with pytest.raises(RequestError, match=says):
        by_regex("a", tokenizer)


def test_a_missing_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llguidance", None)
    with pytest.raises(RequestError, match=r"pip install 'loopeng\[structured\]'"):
        by_regex("a")


def test_the_vocabulary_is_built_once_for_a_tokenizer(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = GrammarTinyTokenizer()
    by_regex("a", tokenizer)
    monkeypatch.setattr(tokenizer, "fast_tokenizer_json", lambda: pytest.fail("built again"), raising=False)
    by_regex("b", tokenizer)


def test_a_text_that_the_vocabulary_cannot_spell_is_told_when_it_comes_to_it(tiny: LoadedModel) -> None:
    with pytest.raises(RequestError, match=r"cannot go on after \d+ tokens"):
        plainly(tiny, request(StructuredOutput(regex="red[é]")))
