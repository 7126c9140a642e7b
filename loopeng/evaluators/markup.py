"""Evaluators for answers in a format: xml, yaml. Well-formed, and with the root that is wanted."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from loopeng.errors import TaskError
from loopeng.evaluators.base import Finding, TypedEvaluator
from loopeng.evaluators.matching import FencedParams, Text
from loopeng.evaluators.wording import join_words, quoted
from loopeng.ports import EvaluationContext
from loopeng.schema import Attempt, Sample
from loopeng.yaml_lines import compose_yaml

__all__ = ["Xml", "XmlParams", "Yaml", "YamlParams"]

_TAG = re.compile(r"<([A-Za-z_][\w.:-]*)")


class XmlParams(FencedParams):
    """What the XML must be."""

    root: Text | None = Field(None, description="Name of the outermost element.")


class Xml(TypedEvaluator[XmlParams]):
    """The answer is one well-formed XML document. No entities are expanded and nothing is fetched.

    Score of a failure: 0.5 for good XML amid other text or with another root, else 0.
    """

    type_name: ClassVar[str] = "xml"
    params_model = XmlParams
    plain_categories = frozenset({"xml.extra_text", "xml.parse", "xml.wrong_root"})
    negated_category = "xml.present"
    redacts_feedback = False  # names no value of a sample

    def check(self, sample: Sample, attempt: Attempt, context: EvaluationContext) -> Finding:
        text = self.params.document_in(attempt.text)
        try:
            root = _xml_root(text)
        except ValueError as error:
            if _holds_xml(text):
                feedback = "Answer with the XML only, without any text or ``` around it."
                return Finding(False, 0.5, "text stands around the XML", "xml.extra_text", feedback)
            return Finding(False, 0.0, f"not XML: {error}", "xml.parse", "Answer with well-formed XML.")
        if self.params.root not in (None, root):
            feedback = f"The outermost element must be <{self.params.root}>."
            return Finding(False, 0.5, f"the root is {quoted([root])}", "xml.wrong_root", feedback)
        return Finding(True, 1.0, f"is XML: <{root}>")

    def default_remedy(self, category: str) -> str | None:
        root = f" with <{self.params.root}> as its outermost element" if self.params.root else ""
        return {
            "xml.extra_text": "Answer with the XML only, without any text or ``` around it.",
            "xml.parse": f"Answer with one well-formed XML document{root}. Close every tag.",
            "xml.wrong_root": f"Answer with one XML document{root}.",
            self.negated_category: "Do not answer in XML.",
        }.get(category)


def _xml_root(text: str) -> str:
    """The name of the outermost element, without its namespace. Raises ValueError where it is not XML."""
    from defusedxml.ElementTree import ParseError, fromstring

    try:
        return str(fromstring(text).tag).rpartition("}")[2]
    except (ParseError, LookupError, RecursionError) as error:  # LookupError: an encoding that there is not
        raise ValueError(str(error)) from None


def _holds_xml(text: str) -> bool:
    """Whether the first element of the text, up to where it is last closed, is XML by itself."""
    first = _TAG.search(text)
    ending = f"</{first[1]}>" if first else ""
    if not first or (end := text.rfind(ending, first.end())) < 0:
        return False
    try:
        return bool(_xml_root(text[first.start() : end + len(ending)]))
    except ValueError:
        return False


class YamlParams(FencedParams):
    """What the YAML must be. Plain prose is YAML too, so a mapping or a list is asked for by default."""

    root: Literal["mapping", "list", "either", "any"] | None = Field(
        None, description="Default: mapping if keys are required, else either a mapping or a list."
    )
    required: tuple[Annotated[str, Field(min_length=1)], ...] = Field((), description="Keys the mapping must have.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.required and self.root not in (None, "mapping"):
            raise ValueError("'required' needs root: mapping")
        return self

    @property
    def kind(self) -> str:
        """``root`` with its default."""
        return self.root or ("mapping" if self.required else "either")


class Yaml(TypedEvaluator[YamlParams]):
    """The answer is one YAML document. It is read as nodes: no tag makes an object, no alias is expanded.

    Score of a failure: the share of required keys present, else 0.
    """

    type_name: ClassVar[str] = "yaml"
    params_model = YamlParams
    plain_categories = frozenset({"yaml.missing_key", "yaml.parse", "yaml.wrong_type"})
    negated_category = "yaml.present"
    redacts_feedback = False  # names no value of a sample

    def check(self, sample: Sample, attempt: Attempt, context: EvaluationContext) -> Finding:
        try:
            root = compose_yaml(self.params.document_in(attempt.text))
            _refuse_twins(root)
        except TaskError as error:
            return Finding(False, 0.0, error.message, "yaml.parse", "Answer with valid YAML.")
        kind = str(getattr(root, "id", "scalar"))  # as ruamel calls it: mapping, sequence, scalar
        kind = {"sequence": "list", "scalar": "plain text"}.get(kind, kind)
        wanted = {"either": ("mapping", "list"), "any": (kind,)}.get(self.params.kind, (self.params.kind,))
        if root is None or kind not in wanted:
            reason = f"the YAML is {'nothing' if root is None else f'a {kind}'}"
            return Finding(False, 0.0, reason, "yaml.wrong_type", f"Answer with {self._wanted}.")
        return self._check_keys({str(key.value) for key, _ in root.value} if kind == "mapping" else set())

    def _check_keys(self, keys: set[str]) -> Finding:
        missing = [key for key in self.params.required if key not in keys]
        if missing:
            score = 1 - len(missing) / len(self.params.required)
            feedback = f"Include the YAML key{'s' * (len(missing) > 1)} {quoted(missing)}."
            return Finding(False, score, f"lacks {quoted(missing)}", "yaml.missing_key", feedback)
        return Finding(True, 1.0, "is YAML as wanted")

    @property
    def _wanted(self) -> str:
        return {
            "mapping": "a YAML mapping (key: value)",
            "list": "a YAML list (- item)",
            "either": "YAML: keys with values (key: value) or a list (- item)",
        }.get(self.params.kind, "YAML")

    def default_remedy(self, category: str) -> str | None:
        keys = join_words([f'"{key}"' for key in self.params.required], "and")
        return {
            "yaml.parse": "Answer with one valid YAML document and no other text.",
            "yaml.wrong_type": f"Answer with {self._wanted} and no other text.",
            "yaml.missing_key": f"The YAML mapping must have the keys {keys}.",
            self.negated_category: "Do not answer in YAML.",
        }.get(category)


def _refuse_twins(root: Any) -> None:
    """Raises TaskError where a mapping has the same plain key twice: readers of YAML refuse it or lose a value."""
    waiting, seen = [root], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) in seen or not isinstance(getattr(node, "value", None), list):
            continue
        seen.add(id(node))
        pairs = [each for each in node.value if isinstance(each, tuple)]
        keys = [key.value for key, _ in pairs if isinstance(key.value, str) and key.value != "<<"]
        if len(set(keys)) < len(keys):
            raise TaskError(f"a key stands twice in the same mapping, on line {node.start_mark.line + 1} or below")
        waiting += [part for pair in pairs for part in pair] or node.value
