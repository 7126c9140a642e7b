"""Sentences for remedies and feedback. Short and plain: a model of 135M parameters is to follow them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from loopeng.prompts import find_placeholders

__all__ = ["aim_above", "aim_below", "count_of", "join_words", "must_contain", "name_of", "quoted"]

_MARKS = {
    "!": "exclamation marks",
    "?": "question marks",
    ";": "semicolons",
    ":": "colons",
    ",": "commas",
    "*": "asterisks",
    "#": "hash signs",
    "`": "backticks",
    "```": "code fences",
    '"': "quotation marks",
    "-": "hyphens",
    "–": "dashes",
    "—": "dashes",
    "(": "brackets",
    ")": "brackets",
    "\n": "line breaks",
    "…": "ellipses",
    "...": "ellipses",
}
_NOT_NAMED = frozenset(
    (
        "amount",
        "code",
        "date",
        "id",
        "name",
        "number",
        "price",
        "quantity",
        "text",
        "time",
        "title",
        "url",
        "value",
        "year",
    )
)


def count_of(number: int, unit: str) -> str:
    """A number with its unit.

    >>> count_of(1, "word"), count_of(20, "word")
    ('one word', '20 words')
    """
    return f"one {unit}" if number == 1 else f"{number} {unit}s"


def aim_below(high: int, low: int | None) -> int:
    """What a rule should ask for so that ``high`` is kept: 80 % of it, since small models overshoot.

    Where ``low`` is near, the middle between the two.

    >>> aim_below(25, None), aim_below(25, 22), aim_below(1, None)
    (20, 23, 1)
    """
    return max((low + high) // 2 if low else 1, high * 4 // 5)


def aim_above(low: int, high: int | None) -> int:
    """What a rule should ask for so that ``low`` is reached: a quarter more, or the middle where ``high`` is near.

    >>> aim_above(40, None), aim_above(40, 45), aim_above(1, None)
    (50, 43, 1)
    """
    aim = low * 5 // 4
    return aim if high is None else min(aim, (low + high + 1) // 2)


def join_words(words: Sequence[str], last: str) -> str:
    """``a, b and c``."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"


def quoted(values: Iterable[str]) -> str:
    """Texts in quotation marks, in backticks where they hold such marks: always one text a quotation.

    >>> print(quoted(["a", 'say "b"', 'say "`c`"']))
    "a", `say "b"`, "say \\"`c`\\""
    """
    return ", ".join(map(_quoted, values))


def _quoted(value: str) -> str:
    if not {'"', "\\"} & set(value):
        return f'"{value}"'
    if "`" not in value:
        return f"`{value}`"
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def name_of(text: str, *, plural: bool = False) -> str:
    """What to call a text to look for, without any sample's value.

    >>> name_of("{{ product }}"), name_of("!", plural=True), name_of("free")
    ('the product', 'exclamation marks', '"free"')
    """
    names = sorted(find_placeholders(text)) if "{{" in text else []
    if names:
        return join_words([f"the {_human(name)}" for name in names], "and")
    return _MARKS.get(text, _quoted(text)) if plural else _quoted(text)


def must_contain(text: str) -> str:
    """The rule for one text that an answer must contain.

    >>> must_contain("{{ product }}"), must_contain("{{ product_name }}"), must_contain("free")
    ('Mention the product by its name.', 'Mention the product name exactly as given.', 'Include "free".')
    """
    names = sorted(find_placeholders(text)) if "{{" in text else []
    if not names:
        return f"Include {name_of(text)}."
    if "target" in names:
        return "State the answer that is asked for."
    if len(names) > 1 or _human(names[0]).split()[-1] in _NOT_NAMED:
        return f"Mention {name_of(text)} exactly as given."
    return f"Mention {name_of(text)} by its name."


def _human(name: str) -> str:
    return "expected answer" if name == "target" else name.replace("_", " ").strip() or name
