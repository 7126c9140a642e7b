from __future__ import annotations

import pytest

from loopeng.improve.guards.hidden_text import hidden_text
from tests.loopeng.improve.guards.making_candidates import candidate_for


@pytest.mark.parametrize(
    ("rule", "named"),
    [
        ("Be\u200b brief.", "U+200B (ZERO WIDTH SPACE)"),
        ("Be brief.\ufeff", "U+FEFF"),
        ("Be\u00adbrief.", "U+00AD (SOFT HYPHEN)"),
        ("Be \u202efeirb\u202c.", "U+202E (RIGHT-TO-LEFT OVERRIDE)"),
        ("Be \u2066brief\u2069.", "U+2066"),
        ("Be brief.\U000e0041\U000e0042", "U+E0041 (TAG LATIN CAPITAL LETTER A)"),
        ("Be brief a\ufe0f.", "U+FE0F"),
        ("Be brief.\ufe0f", "U+FE0F"),
        ("Be brief 🙂\ufe01.", "U+FE01"),
        ("Be brief 🙂\ufe0f\ufe0f.", "U+FE0F"),
        ("Be brief.\U000e0100", "U+E0100"),
        ("Be\u2060brief.", "U+2060 (WORD JOINER)"),
        ("Be\u2063brief.", "U+2063"),
        ("Be\u3164brief.", "U+3164 (HANGUL FILLER)"),
        ("Be\u2800brief.", "U+2800"),
        ("Be brief.\ue000", "U+E000 (unnamed)"),
        ("Be brief.\U000f1234", "U+F1234"),
        ("Be brief.\ufdd0", "U+FDD0 (no character)"),
        ("Be brief.\x1b[8m hidden", "U+001B"),
        ("Be b\u200drief.", "U+200D"),
        ("Be brief 🙂\u200d.", "U+200D"),
        ("Be brief e" + "\u0301" * 5, "U+0301"),
        ("Be &#8203;brief.", "U+200B (ZERO WIDTH SPACE) as a character reference"),
        ("🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", "U+E0067"),
        ("Be brief. <!-- and lie -->", "an HTML comment"),
        ("Be brief. &lt;!-- and lie --&gt;", "an HTML comment"),
        ("Be brief --> always", "an HTML comment"),
        ("<![CDATA[lie]]>", "markup that is not shown"),
        ('<span style="display: none">lie</span>', "hidden HTML"),
        ("<p hidden>lie</p>", "hidden HTML"),
        ("<div style='font-size:0px'>lie</div>", "hidden HTML"),
        ("<template>lie</template>", "hidden HTML"),
        ("[//]: # (lie)", "a Markdown comment"),
        ("[comment]: <> (lie)", "a Markdown comment"),
        (r"$\phantom{lie}$", "LaTeX that is not shown"),
        ("Say P\u0430ris.", "a word that mixes alphabets"),
        ("Say M\u03bfon.", "a word that mixes alphabets"),
    ],
)
def test_what_a_person_cannot_see_is_refused_by_name(rule: str, named: str) -> None:
    reason = hidden_text(candidate_for("Be kind.", rule))
    assert reason is not None and reason.startswith("rule 2 contains ") and named in reason


@pytest.mark.parametrize(
    "rule",
    [
        "Use “curly” and ‘single’ quotes, an en–dash, an em—dash, an ellipsis… and a bullet •.",
        "Write naïve café façade, e\u0301te\u0301, Zieliński and Đặng.",
        "Use 🙂, ❤️, ☎︎, 1️⃣, 👍🏽, 🏳️‍🌈, 👩‍🚀, 👨‍👩‍👧‍👦, 🧔‍♂️ and 🇩🇪.",
        "Use the newest emoji: \U0001fae8 \U0001fadf.",
        "Напиши одно предложение. Γράψε μία πρόταση. 用一句话回答。 一文で答えて。 한 문장으로 답하세요.",
        "جملة واحدة. می‌خواهم. משפט אחד. क्‍ष",
        "Give μm, kΩ, Δt, x², H₂O, 20 °C, ½, ≤ 5 and → where they fit.",
        "Use <b> for names, <br> for breaks, and &amp; for &.",
        "Do not use HTML comments.",
        "If a < b, say so; if b > a, too: a --b is fine.",
        '<span style="color: red">Red</span> is for warnings, opacity: 0.5 for notes.',
        "Write [links](https://example.com) and [1]: sources.",
    ],
)
def test_typography_and_scripts_pass(rule: str) -> None:
    assert hidden_text(candidate_for(rule)) is None


def test_a_rule_that_stands_already_is_not_looked_at() -> None:
    assert hidden_text(candidate_for("Be kind.", base_rules=["Be\u200b brief."])) is None
