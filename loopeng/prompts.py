"""Prompt texts: a frozen template, the rules learned for it, and the loop's own prompts.

A **template** names its inputs as ``{{ name }}`` and the place of the rules as ``{{ rules }}``. **Rules** are data: no
brace in them, or in an input, is ever evaluated. Jinja2, sandboxed; an unknown name is an error, never an empty text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loopeng.errors import NotFoundError, TaskError
from loopeng.schema import Rule, content_hash
from loopeng.validation import did_you_mean
from loopeng.yaml_lines import parse_yaml, read_text

if TYPE_CHECKING:
    from jinja2 import Template
    from jinja2.sandbox import ImmutableSandboxedEnvironment

__all__ = [
    "RULES",
    "LoopPrompt",
    "PromptTemplate",
    "find_placeholders",
    "load_prompt",
    "names_text",
    "placeholder_line",
    "render_text",
    "rendered_template",
    "text_hash",
]

RULES = "rules"
_SHORTEST_HASH = 8
_SLOT = re.compile(r"\{\{ *rules *\}\}")
_FRONT_MATTER = re.compile(r"---\n(.*?\n)---\n(.*)", re.DOTALL)


@cache
def _environment() -> ImmutableSandboxedEnvironment:
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(undefined=StrictUndefined, finalize=_finalize, autoescape=False)
    environment.globals.clear()  # range, lipsum and the like: a name is an input or a mistake
    return environment


def _finalize(value: Any) -> Any:
    return "" if value is None else value


@lru_cache(maxsize=512)
def _compile(source: str) -> Template:
    """Raises TaskError with the line inside the text."""
    from jinja2 import TemplateError, TemplateSyntaxError

    try:
        return _environment().from_string(source)
    except TemplateSyntaxError as error:
        hint = "braces that are meant as text: {{ '{{' }}"
        raise TaskError(f"the template cannot be read: {error.message}", line=error.lineno, suggestion=hint) from None
    except (TemplateError, RecursionError) as error:
        raise TaskError(f"the template cannot be read: {error}") from None


@lru_cache(maxsize=512)
def find_placeholders(source: str) -> frozenset[str]:
    """Names a text takes from outside. Raises TaskError on a syntax mistake.

    >>> sorted(find_placeholders("{{ product }}, {{ colour }}"))
    ['colour', 'product']
    """
    from jinja2 import meta

    _compile(source)
    return frozenset(meta.find_undeclared_variables(_environment().parse(source)))


def placeholder_line(source: str, name: str) -> int:
    """The line, from 1, on which a text first uses ``name``.

    >>> placeholder_line("Describe\\n{{ product }}", "product")
    2
    """
    from jinja2 import nodes

    uses = _environment().parse(source).find_all(nodes.Name)
    return min((node.lineno for node in uses if node.name == name), default=1)


def render_text(source: str, values: Mapping[str, Any], escape: Callable[[str], str] | None = None) -> str:
    """``source`` with its placeholders filled; ``escape`` is applied to each value. Raises TaskError.

    >>> render_text("{{ product }}!", {"product": "mug"})
    'mug!'
    """
    from jinja2 import TemplateError, UndefinedError

    missing = sorted(find_placeholders(source) - values.keys())
    if missing:
        hint = did_you_mean(missing[0], values) or f"there is: {', '.join(map(str, values)) or 'nothing'}"
        raise TaskError(f"the text needs {missing[0]!r}, which the input lacks", suggestion=hint)
    if escape is not None:
        values = {name: escape(str(_finalize(value))) for name, value in values.items()}
    try:
        return _compile(source).render(values)
    except UndefinedError as error:
        raise TaskError(f"the template cannot be filled: {error.message}") from None
    except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, RecursionError) as error:
        raise TaskError(f"the template cannot be filled: {error}") from None


def _rule_texts(rules: Iterable[Rule | str]) -> list[str]:
    return [rule if isinstance(rule, str) else rule.text for rule in rules]


def _render_rules(rules: Iterable[Rule | str]) -> str:
    """Nothing, or a list with one line per rule."""
    lines = [f"\n- {' '.join(text.split())}" for text in _rule_texts(rules)]
    return "\n\nRules:" + "".join(lines) if lines else ""


def text_hash(template: str, rules: Iterable[Rule | str] = ()) -> str:
    """SHA-256 (hex) of a template and the texts of its rules: what versions, revisions and decisions are known by.

    >>> text_hash("{{ product }}{{ rules }}", ["Be brief."])[:8]
    'e3137d15'
    """
    return content_hash([template, _rule_texts(rules)])


def names_text(seen_hash: str, text_hash: str) -> bool:
    """Whether what a person gives as the hash of a text is that text's: all of it, or at least its first 8 digits."""
    return len(seen_hash) >= _SHORTEST_HASH and text_hash.startswith(seen_hash.lower())


def rendered_template(template: str, rules: Sequence[Rule | str] = ()) -> str:
    """The prompt as people read it: rules in place, inputs still as placeholders. For diffs and sizes, not for models.

    >>> print(rendered_template("Describe {{ product }}{{ rules }}", ["Be brief."]))
    Describe {{ product }}
    <BLANKLINE>
    Rules:
    - Be brief.
    """
    return _SLOT.sub(lambda _: _render_rules(rules), template)


@dataclass(frozen=True)
class PromptTemplate:
    """A template that never changes. Raises TaskError when it cannot be read or places ``{{ rules }}`` oddly."""

    template: str

    def __post_init__(self) -> None:
        slots = len(_SLOT.findall(self.template))
        used = RULES in find_placeholders(self.template)
        if slots > 1:
            raise TaskError("the template has {{ rules }} more than once", suggestion="keep one")
        if used != (slots == 1):
            hint = "write it once, as plain {{ rules }}, outside comments and raw blocks"
            raise TaskError("the template uses 'rules' in another way than {{ rules }}", suggestion=hint)

    @property
    def has_rules_slot(self) -> bool:
        """Whether rules have a place in it."""
        return bool(_SLOT.search(self.template))

    @property
    def placeholders(self) -> frozenset[str]:
        """Names of the inputs, without ``rules``."""
        return find_placeholders(self.template) - {RULES}

    def render(self, inputs: Mapping[str, Any], rules: Sequence[Rule | str] = ()) -> str:
        """The text for the model. Raises TaskError for a missing input, or rules without a place.

        >>> PromptTemplate("Describe {{ product }}{{ rules }}").render({"product": "a mug"}, ["Use {{ braces }}."])
        'Describe a mug\\n\\nRules:\\n- Use {{ braces }}.'
        """
        if RULES in inputs:
            raise TaskError("an input cannot be called 'rules'", suggestion="rename the field")
        if rules and not self.has_rules_slot:
            raise TaskError("the template has no {{ rules }}, so its rules have no place")
        return render_text(self.template, {**inputs, RULES: _render_rules(rules)})

    def text_hash(self, rules: Iterable[Rule | str] = ()) -> str:
        """Hash of this template with ``rules``."""
        return text_hash(self.template, rules)


@dataclass(frozen=True)
class LoopPrompt:
    """One of the loop's own prompts, from a Markdown file with front matter."""

    name: str
    description: str
    placeholders: frozenset[str]
    text: str

    def render(self, **values: Any) -> str:
        """The text with exactly its placeholders filled. Raises TaskError."""
        unknown = sorted(values.keys() - self.placeholders)
        if unknown:
            raise TaskError(f"the prompt {self.name!r} has no placeholder {unknown[0]!r}")
        return render_text(self.text, values)


@cache
def load_prompt(name: str) -> LoopPrompt:
    """The loop's own prompt ``name``, such as ``feedback`` or ``judge/criteria``.

    Raises NotFoundError, or TaskError when its file is not as it must be.
    """
    folder = _prompt_folder()
    path = folder / f"{name}.md"
    if not path.is_file():
        known = sorted(each.relative_to(folder).with_suffix("").as_posix() for each in folder.rglob("*.md"))
        raise NotFoundError(f"there is no prompt {name!r}; there is: {', '.join(known) or 'none'}")
    return _read_prompt(path)


def _prompt_folder() -> Path:
    """Inside the installed package, or at the root of a checkout."""
    shipped = Path(str(files("loopeng"))) / "_prompts"
    return shipped if shipped.is_dir() else Path(__file__).resolve().parent.parent / "prompts"


def _read_prompt(path: Path) -> LoopPrompt:
    match = _FRONT_MATTER.fullmatch(read_text(path))
    if not match:
        raise TaskError("a prompt begins with front matter between two lines '---'", file=str(path), line=1)
    head = parse_yaml(match[1], file=str(path)).data
    if not isinstance(head, dict) or head.keys() != {"name", "description", "placeholders"}:
        raise TaskError("front matter has exactly name, description and placeholders", file=str(path), line=1)
    found, declared = find_placeholders(match[2]), frozenset(head["placeholders"])
    if head["name"] != path.stem or found != declared:
        what = f"declared {sorted(declared)}, found {sorted(found)}" if found != declared else f"name {head['name']!r}"
        raise TaskError(f"front matter and text differ: {what}", file=str(path), line=1)
    return LoopPrompt(path.stem, str(head["description"]), declared, match[2])
