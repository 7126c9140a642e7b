from __future__ import annotations

import random
import string
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from evals.bench.planted_answers import CLEAN_RULES, TASKS
from loopeng.improve.guards.folding import readings_of_target
from loopeng.improve.guards.overlap import overlap
from loopeng.schema import RuleOperation, Sample
from tests.loopeng.improve.guards.making_candidates import candidate_for, samples_with

LONG = "The quarterly report lists seven failures of the cooling system and names their causes."


def says(rule: str, *targets: Any, **rest: Any) -> str | None:
    return overlap(candidate_for(rule, samples=samples_with(targets), **rest))


def test_the_reason_names_the_sample_and_never_the_answer() -> None:
    reason = says("Say tungsten for W.", "carbon", "Tungsten")
    assert reason is not None and "tungsten" not in reason.casefold()
    assert reason.startswith("rule 1 repeats the target of sample 's-1' (gate); say what to do, not what the answer is")


@pytest.mark.parametrize(
    ("target", "rule"),
    [
        ("art", "Let them start with the article."),
        ("Togo", "Say where to go."),
        ("notable", "If you are not able to answer, say so."),
        ("Don", "Don't guess."),
        ("20%", "Use at most 20 words."),
        ("5.0", "Rate from 1 to 5."),
        (12.0, "Use 12 words."),
        ("3.5", "Write 3-5 sentences."),
        ("-40", "Write 30-40 words."),
        ("1,000", "Use 1 word, never 000."),
        ("C++", "Begin with a C."),
        ("no", "Say no more than is asked."),
        ("won", "Answer now."),
        (True, "Write one sentence."),
        ({"urgent": True, "level": None}, "Write true or null where it applies."),
    ],
)
def test_what_only_looks_like_an_answer_passes(target: Any, rule: str) -> None:
    assert says(rule, target) is None


@pytest.mark.parametrize(
    ("target", "rule"),
    [
        ("1,234", "Say 1.234 for it."),
        ("1 234,50", "Say 1234.5 for it."),
        (1234.5, "Say 1,234.50 for it."),
        ("12.0", "Say 12.00 for it."),
        ("20%", "Say 20 per cent."),
        ("$20", "Say 20 USD."),
        ("450 kg", "Say 450kg."),
        ("2024-05-01", "Say 2024.05.01."),
        ("0800 555 417", "Call 0800555417."),
        ("3/4", "Say (3 / 4)."),
        ("-40", "Say -40 degrees."),
        ("C++", "Say `c++`."),
        ("login page", "Open loginPage()."),
        ("loginPage", "Open the login page."),
        ("John's", "Say johns."),
        ("naïve", "Say NAIVE."),
        ("Łódź", "Say Lodz."),
        ("blue whale", "Say <b>blue</b> <i>wh</i>ale."),
        ("Rock &#39;n&#39; Roll", "Say rock 'n' roll."),
        ("Paris", "Say P\u0430ris."),  # a Cyrillic letter
        ("Paris", "Say \\u0050aris."),
        ("Paris", "Say %50aris."),
        ("Paris", "Say UGFyaXM=."),
        ("Paris", "Read siraP backwards."),
        ("Paris", "Say a P a r i s."),
        ("東京都", "答えは東京都です。"),
        ("- red\n- green", "Say red, green."),
        ("1. red\n2. green", "Say 1) red 2) green."),
        ('{"colour": "mauve"}', "Say mauve."),
        ({"colour": {"name": ["mauve"]}}, "Say mauve."),
        ({"a": 1, "bc": 2}, 'Say {"a": 1, "bc": 2}.'),
        ("one", "Write one sentence."),
    ],
)
def test_an_answer_written_in_another_way_is_refused(target: Any, rule: str) -> None:
    assert says(rule, target) is not None


def test_a_word_that_is_no_secret_may_be_named() -> None:
    rule = "Answer high only where it burns."
    assert says(rule, "high", "low") is not None
    assert says(rule, "high", "High.", "high", "low") is None  # a label of three samples
    assert says(rule, "high", template="Answer low or high.\n{{ text }}{{ rules }}") is None
    assert says(rule, "high", params={"schema": {"properties": {"level": {"enum": ["low", "high"]}}}}) is None
    assert says(rule, "high", params={"choices": ["low", "high"]}) is None
    assert says(rule, "high", params={"high": 1}) is None
    assert says("Answer 450.", 450, params={"choices": [450, 460]}) is None


@pytest.mark.parametrize("hidden_in", ["{{ high }}", "{# high #}", "{% if high %}x{% endif %}"])
def test_names_and_comments_of_a_template_are_not_told_to_the_model(hidden_in: str) -> None:
    assert says("Answer high.", "high", template=f"Answer.{hidden_in}{{{{ rules }}}}") is not None
    assert says("Answer high.", "high", params={"value": hidden_in}) is not None


def test_a_rule_that_stands_already_is_not_new_and_its_answer_may_stay_when_it_is_reworded() -> None:
    samples = samples_with(["tungsten"])
    kept = candidate_for("Be brief.", samples=samples, base_rules=["Say tungsten."])
    assert overlap(kept) is None
    (old,) = kept.base.rules
    reworded = [RuleOperation(op="update", rule_id=old.id, text="Always say tungsten.")]
    assert overlap(candidate_for(samples=samples, base_rules=["Say tungsten."], operations=reworded)) is None
    moved = [RuleOperation(op="add", text="W is tungsten.")]
    assert overlap(candidate_for(samples=samples, base_rules=["Say tungsten."], operations=moved)) is not None


def test_five_words_or_32_characters_of_a_target_or_of_what_is_tested() -> None:
    five, four = "Mention seven failures of the cooling.", "Mention seven failures of the engine."
    for split, refused in (("gate", True), ("holdout", True), ("reflect", False)):
        asked = overlap(candidate_for(five, samples=samples_with([None], {"text": {"body": [LONG]}}, split)))
        assert (asked is not None) is refused
        assert says(five, LONG) is not None and says(four, LONG) is None
    assert "5 words with the input 'text' of sample 's-0' (gate)" in str(
        overlap(candidate_for(five, samples=samples_with([None], {"text": LONG})))
    )
    words = "Donaudampfschifffahrtsgesellschaften verkehren"
    assert "32 characters in a row" in str(says("Name Donaudampfschifffahrtsgesellschaft.", words))
    assert says("Name Donaudampfschifffahrtsgesell.", words) is None  # 29 of them


def test_a_run_that_stands_in_the_prompt_or_in_an_evaluator_is_not_taken_from_the_sample() -> None:
    rule = "List seven failures of the cooling system."
    assert says(rule, LONG) is not None
    assert says(rule, LONG, template="List seven failures of the cooling system.{{ text }}{{ rules }}") is None
    assert says(rule, LONG, base_rules=["List seven failures of the cooling system first."]) is None
    assert says(rule, LONG, params={"value": "seven failures of the cooling system"}) is None
    assert says(rule, LONG, LONG, LONG) is None  # three samples have it


TARGET_WORDS = st.text(string.ascii_letters + "éüñß", min_size=1, max_size=8) | st.integers(0, 99_999).map(str)
TARGETS = st.lists(TARGET_WORDS, min_size=1, max_size=3).map(" ".join)
CASES = st.sampled_from([str, str.upper, str.lower, str.title, str.swapcase])
GAPS = st.sampled_from([" ", "  ", "-", "_", ", ", " / ", "."])
WRAPPINGS = st.sampled_from(["{}", '"{}"', "“{}”", "`{}`", "({})", "**{}**", "say({})", "{}!", "{};", "={}="])
CLEAN = st.sampled_from(CLEAN_RULES)


def planted(rule: str, at: int, answer: str) -> str:
    words = rule.split()
    return " ".join([*words[:at], answer, *words[at:]])


@settings(max_examples=300, deadline=None)
@given(TARGETS, CLEAN, st.integers(0, 20), CASES, GAPS, WRAPPINGS)
def test_a_target_between_token_boundaries_is_refused_whatever_its_case_and_punctuation(
    target: str, clean: tuple[str, str], at: int, case: Any, gap: str, wrapping: str
) -> None:
    assume(sum(char.isalnum() for char in target) >= 3)
    assert says(planted(clean[1], at, target), target) is not None
    assert says(planted(clean[1], at, wrapping.format(gap.join(case(target).split()))), target) is not None


@settings(max_examples=60, deadline=None)
@given(CLEAN, st.lists(st.lists(st.text("qxzj", min_size=4, max_size=9), min_size=1, max_size=40), max_size=5))
def test_unrelated_samples_do_not_change_what_is_said_of_a_clean_rule(
    clean: tuple[str, str], texts: list[list[str]]
) -> None:
    name, rule = clean
    others = [
        Sample(id=f"other-{number}", inputs={"text": " ".join(words)}, target=" ".join(words[:3]), split="gate")
        for number, words in enumerate(texts)
    ]
    task = TASKS[name]
    assert overlap(candidate_for(rule, samples=[*task.samples, *others], template=task.template,
                                 params={str(spec.id): spec.params for spec in task.evaluators})) is None  # fmt: skip


def test_many_long_samples_are_searched_for_the_rule_and_not_the_other_way_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ten thousand samples, five megabytes. The work counted, not the time: few texts are read as targets at all."""
    draw = random.Random(0)
    words = ["".join(draw.choices("etaoinshrdlu", k=draw.randint(4, 9))) for _ in range(3000)]
    samples = [
        Sample(id=f"s-{number}", inputs={"text": " ".join(draw.choices(words, k=40))},
               target=" ".join(draw.choices(words, k=30)), split="gate")
        for number in range(10_000)
    ]  # fmt: skip
    counted: list[str] = []
    read = readings_of_target
    monkeypatch.setattr(
        "loopeng.improve.guards.overlap.readings_of_target", lambda text: counted.append(text) or read(text)
    )
    assert overlap(candidate_for("Use at most 20 words.", samples=samples)) is None
    assert len(counted) < 10
