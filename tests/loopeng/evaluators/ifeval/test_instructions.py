"""Every instruction of IFEval with responses that follow it and responses that do not, quirks included."""

from __future__ import annotations

from typing import Any

import pytest

from loopeng.evaluators.ifeval import INSTRUCTIONS, find_instruction, follows

ENGLISH = "the old lighthouse keeper walked along the shore and counted the ships that came home"
BULLETS = "Points:\n* one\n  * two\n- three"
SECTIONS = "SECTION 1\nfirst\nSECTION 2\nsecond"

# id, arguments, responses that follow, responses that do not
CASES: list[tuple[str, dict[str, Any], list[str], list[str]]] = [
    (
        "keywords:existence",
        {"keywords": ["story", "War"]},
        ["A STORY of war.", "stories? history warfare"],  # inside longer words, in any case
        ["A story of peace.", "war", "stor y war"],
    ),
    ("keywords:existence", {"keywords": ["colou?r"]}, ["color", "Colour"], ["colr"]),  # a regular expression
    ("keywords:existence", {"keywords": ["note)"]}, ["(a Note)"], ["a note"]),  # not one: literally
    (
        "keywords:frequency",
        {"keyword": " war ", "frequency": 2, "relation": "at least"},
        ["War and war.", "warfare, warden, wart"],
        ["War and peace.", "ward"],
    ),
    ("keywords:frequency", {"keyword": "war", "frequency": 2, "relation": "less than"}, ["peace", "war"], ["war War"]),
    (
        "keywords:forbidden_words",
        {"forbidden_words": ["rock", "go"]},
        ["Rocket, going, rocks.", "nothing"],  # whole words only
        ["ROCK", "a rock-solid plan", "Let it go."],
    ),
    (
        "keywords:letter_frequency",
        {"letter": "T", "let_frequency": 3, "let_relation": "at least"},
        ["To the top", "ttt"],
        ["the top", "none"],
    ),
    (
        "keywords:letter_frequency",
        {"letter": "e", "let_frequency": 2, "let_relation": "less than"},
        ["bee"[:2], "no"],
        ["Eel", "bee"],
    ),
    (
        "keywords:letter_frequency",
        {"letter": "#", "let_frequency": 4, "let_relation": "at least"},  # any character
        ["#### title"],
        ["### title"],
    ),
    (
        "language:response_language",
        {"language": "de"},
        ["Der alte Leuchtturmwärter ging am Strand entlang und zählte die Schiffe.", "123 456"],  # nobody can tell
        [ENGLISH, "La vieille gardienne du phare marchait le long de la plage."],
    ),
    ("language:response_language", {"language": "hi"}, ["यह एक छोटी सी कहानी है जो हिंदी में लिखी गई है।"], [ENGLISH]),
    (
        "length_constraints:number_words",
        {"num_words": 4, "relation": "at least"},
        ["don't stop now", "one two three four", "a-b c_d e"],  # runs of \w
        ["one two three", "a_b_c_d - ..."],
    ),
    (
        "length_constraints:number_words",
        {"num_words": 3, "relation": "less than"},
        ["one two", "one -- two!"],
        ["one two three", "it's me"],
    ),
    (
        "length_constraints:number_sentences",
        {"num_sentences": 3, "relation": "at least"},
        ["One. Two! Three?", "1. Buy milk. Then rest."],
        ["One. Two.", "no full stop\nno full stop\nno full stop", "Dr. Lee met Mr. Fox."],
    ),
    (
        "length_constraints:number_sentences",
        {"num_sentences": 2, "relation": "less than"},
        ["Only one.", "- a list\n- of things", "It costs 3.50 here"],
        ["One. Two.", "Is it? yes."],
    ),
    (
        "length_constraints:number_paragraphs",
        {"num_paragraphs": 2},
        ["one\n***\ntwo", "***\none\n***\ntwo\n***", "one *** two"],
        ["one\n\ntwo", "one\n***\n***\ntwo", "one", "a\n***\nb\n***\nc"],
    ),
    (
        "length_constraints:nth_paragraph_first_word",
        {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "Weekend"},
        ["One.\n\nWeekend, at last.", 'One.\n\n\'"weekend" is fun', "One.\n\nWEEKEND's over\n\n"],
        [
            "Weekend.\n\nTwo.",
            "One.\n\nWeekends are fun.",
            "One.\n\nWeekend.\n\nThree.",
            "One.\nWeekend.",
        ],
    ),
    (
        "length_constraints:nth_paragraph_first_word",
        {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "two"},
        ["\n\ntwo\n\none"],  # blank paragraphs count when the second is looked for, but not towards the number
        ["one\n\n\n\ntwo"],
    ),
    (
        "detectable_content:number_placeholders",
        {"num_placeholders": 2},
        ["[name], [address]", "[] [ ]", "[a][b][c]"],
        ["[name]", "[a\nb] [c]", "name"],
    ),
    (
        "detectable_content:postscript",
        {"postscript_marker": "P.S."},
        ["Bye.\nP.S. Write!", "p. s. spaces", "in a line p.s. too"],
        ["Bye. PS: Write!", "P.P.S no stop", "P.S no stop"],
    ),
    (
        "detectable_content:postscript",
        {"postscript_marker": "P.P.S"},
        ["P.P.S Write!", "p. p. s. spaces", "p.p.s"],
        ["P.S. Write!", "PPS"],
    ),
    ("detectable_content:postscript", {"postscript_marker": "PS:"}, ["Bye. ps: more"], ["P.S. more"]),
    (
        "detectable_format:number_bullet_lists",
        {"num_bullets": 3},
        [BULLETS, "*one\n*two\n-three", "- a\n\n- b\n---"],
        ["* one\n* two", f"{BULLETS}\n* four", "* a * b * c", "** a\n** b\n** c", "1. a\n2. b\n3. c"],
    ),
    (
        "detectable_format:number_highlighted_sections",
        {"num_highlights": 2},
        ["*one* and **two**", "*a* b *c*", "**a** **b**"],
        ["*one* and two", "** ** *a*", "*a\nb* *c*", "one two"],
    ),
    (
        "detectable_format:multiple_sections",
        {"section_spliter": "SECTION", "num_sections": 2},
        [SECTIONS, f"{SECTIONS}\nSECTION 3", "SECTION1 a SECTION2 b"],
        ["Section 1\nSection 2", "SECTION 1", "SECTION one SECTION two", "SECTION  1 SECTION  2"],
    ),
    (
        "detectable_format:json_format",
        {},
        ['{"a": 1}', '```json\n{"a": [1]}\n```', '```\n"text"\n```', " 3 "],
        ["{'a': 1}", 'Here: {"a": 1}', '```python\n{"a": 1}\n```', "[" * 100_000],
    ),
    (
        "detectable_format:title",
        {},
        ["<<poem of joy>>\nText", "text <<<t>>> text"],
        ["<poem>", "<<>>", "<< >>", "<<po\nem>>", "# poem"],
    ),
    (
        "detectable_format:constrained_response",
        {},
        ["My answer is yes.", "\n My answer is no.\n", "Well. My answer is maybe. Truly."],
        ["My answer is yes", "my answer is no.", "Yes."],
    ),
    (
        "combination:two_responses",
        {},
        ["one\n******\ntwo", "******\none******two******"],
        ["one", "one******one", "a******b******c", "a****** ******b", "one***two"],
    ),
    (
        "combination:repeat_prompt",
        {"prompt_to_repeat": "Write a haiku. "},
        ["Write a haiku. Old pond ...", "  WRITE A HAIKU.\nOld pond"],
        ["Sure: Write a haiku. Old pond", "Old pond", "Write a  haiku."],
    ),
    (
        "startend:end_checker",
        {"end_phrase": " Peace! "},
        ["Love and peace!", 'He said: "PEACE!" ', "peace!\n"],
        ["Peace! Bye.", "peace", "Peace!."],
    ),
    ("startend:quotation", {}, ['"All of it."', '\n "a" and "b" ', '""'], ['"', "'all'", 'a "b"', '"b" a', "“all”"]),
    (
        "change_case:english_capital",
        {},
        [ENGLISH.upper(), f"{ENGLISH.upper()} 3!"],
        [ENGLISH, ENGLISH.title(), "СТАРЫЙ МАЯК СТОИТ НА БЕРЕГУ", "123"],
    ),
    (
        "change_case:english_lowercase",
        {},
        [ENGLISH, f"{ENGLISH} 3!"],
        [ENGLISH.upper(), ENGLISH.capitalize(), "der alte leuchtturm steht am strand und leuchtet", "123"],
    ),
    (
        "change_case:capital_word_frequency",
        {"capital_frequency": 3, "capital_relation": "at least"},
        ["I AM HERE", "DON'T (STOP)", "A/B-C, D: **E**"],  # a contraction is two words
        ["STATE-OF-THE-ART AND/OR", "I am here", "Ab Cd Ef"],
    ),
    (
        "change_case:capital_word_frequency",
        {"capital_frequency": 2, "capital_relation": "less than"},
        ["NO, never", "none"],
        ["NO NO", "CAN'T"],
    ),
    ("punctuation:no_comma", {}, ["No comma; none.", "a،b、c"], ["One, two", "1,000"]),
]
FOLLOWED = [(each, kwargs, text, True) for each, kwargs, good, _ in CASES for text in good]
BROKEN = [(each, kwargs, text, False) for each, kwargs, _, bad in CASES for text in bad]


@pytest.mark.parametrize(
    ("instruction_id", "kwargs", "response", "followed"), FOLLOWED + BROKEN, ids=lambda value: str(value)[:40]
)
def test_instruction(instruction_id: str, kwargs: dict[str, Any], response: str, followed: bool) -> None:
    instruction = find_instruction(instruction_id)
    assert follows(instruction, response, instruction.arguments(kwargs)) is followed


def test_every_instruction_has_cases_of_both_kinds() -> None:
    assert len(INSTRUCTIONS) == 25
    for cases in (FOLLOWED, BROKEN):
        assert {each for each, *_ in cases} == INSTRUCTIONS.keys()


@pytest.mark.parametrize("instruction_id", INSTRUCTIONS)
def test_a_blank_response_follows_nothing(instruction_id: str) -> None:
    kwargs = next(kwargs for each, kwargs, *_ in CASES if each == instruction_id)
    instruction = find_instruction(instruction_id)
    assert not follows(instruction, " \n\t", instruction.arguments(kwargs))


@pytest.mark.parametrize(("instruction_id", "kwargs"), [(each, kwargs) for each, kwargs, *_ in CASES], ids=str)
def test_the_demand_is_plain_and_the_remedy_holds_no_value(instruction_id: str, kwargs: dict[str, Any]) -> None:
    instruction = find_instruction(instruction_id)
    arguments = instruction.arguments(kwargs)
    demand = instruction.stated(arguments)
    assert "{" not in demand and demand[0].isupper() and "\n" not in demand
    for value in arguments.values():
        for part in value if isinstance(value, list) else [value]:
            shown = instruction.names.get(str(part), str(part))
            assert shown in demand
    assert instruction.check.__doc__ and "{" not in instruction.remedy and instruction.remedy.endswith(".")


@pytest.mark.parametrize(
    ("instruction_id", "kwargs", "message"),
    [
        ("keywords:exist", {}, r"no instruction 'keywords:exist' in IFEval \(did you mean 'keywords:existence'"),
        ("length_constraints:number_words", {"num_words": 3}, "number_words': .*relation"),
        ("length_constraints:number_words", {"num_words": 3, "relation": None}, "relation"),
        ("length_constraints:number_words", {"num_words": "3", "relation": "at least"}, "num_words"),
        ("length_constraints:number_words", {"num_words": True, "relation": "at least"}, "num_words"),
        ("length_constraints:number_words", {"num_words": -1, "relation": "at least"}, "num_words"),
        ("length_constraints:number_words", {"num_words": 3, "relation": "at most"}, "relation"),
        ("punctuation:no_comma", {"num_words": 3}, "num_words"),
        ("keywords:existence", {"keywords": []}, "keywords"),
        ("keywords:existence", {"keywords": [""]}, "keywords"),
        ("keywords:letter_frequency", {"letter": "ab", "let_frequency": 1, "let_relation": "at least"}, "letter"),
        ("language:response_language", {"language": "xx"}, "'xx' is no language of IFEval"),
        (
            "length_constraints:nth_paragraph_first_word",
            {"num_paragraphs": 2, "nth_paragraph": 3, "first_word": "a"},
            "nth_paragraph is 3, more than num_paragraphs, which is 2",
        ),
    ],
    ids=str,
)
def test_what_cannot_be_checked_is_said(instruction_id: str, kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        follows(find_instruction(instruction_id), "text", find_instruction(instruction_id).arguments(kwargs))


def test_null_arguments_count_as_not_given() -> None:
    arguments = find_instruction("punctuation:no_comma").arguments({"num_words": None, "relation": None})
    assert arguments == {}
