"""YAML 1.2 as plain data that knows its lines.

Only what a task file needs: mappings with text keys, lists, text, numbers, true/false and null. Dates stay text; tags,
merge keys and several documents are refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loopeng.errors import TaskError
from loopeng.validation import Loc

__all__ = ["YamlDocument", "compose_yaml", "parse_yaml", "read_text"]

_MAX_NODES = 100_000
_TAG = "tag:yaml.org,2002:"
_BRACES_HINT = 'put text with {{ ... }} in quotes, as in "{{ name }}"'


@dataclass(frozen=True)
class YamlDocument:
    """Parsed data with the line (from 1) of every key and item."""

    data: Any
    lines: Mapping[Loc, int] = field(default_factory=dict)
    text_lines: Mapping[Loc, int] = field(default_factory=dict)  # where the text of a "|" block begins
    file: str | None = None

    def line(self, loc: Loc) -> int | None:
        """The line of ``loc``, or of what it would stand in."""
        for length in range(len(loc), -1, -1):
            if loc[:length] in self.lines:
                return self.lines[loc[:length]]
        return None

    def text_line(self, loc: Loc, number: int) -> int | None:
        """Where line ``number`` of a text value stands; its key's line where YAML folds or quotes the text."""
        first = self.text_lines.get(loc)
        return self.line(loc) if first is None else first + number - 1


def read_text(path: Path, shown: str | None = None) -> str:
    """The text of a UTF-8 file, without a byte order mark and with ``\\n`` as newline. Raises TaskError."""
    shown = shown or str(path)
    try:
        raw = path.read_bytes()
    except IsADirectoryError:
        raise TaskError("this is a folder, not a file", file=shown) from None
    except FileNotFoundError:
        raise TaskError("there is no such file", file=shown) from None
    except (OSError, ValueError) as error:
        raise TaskError(f"the file cannot be read: {error}", file=shown) from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise TaskError("the file is not UTF-8 text", file=shown, line=line, suggestion="save it as UTF-8") from None
    return text.replace("\r\n", "\n")


def parse_yaml(text: str, file: str | None = None) -> YamlDocument:
    """Parse one YAML document. Raises TaskError with the line."""
    root = compose_yaml(text, file)
    if root is None:
        raise TaskError("the file is empty", file=file)
    return _Reader(file).document(root)


def compose_yaml(text: str, file: str | None = None) -> Any:
    """The nodes of one YAML document, ruamel's; None where there is nothing. Raises TaskError with the line."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError
    from ruamel.yaml.reader import ReaderError

    try:
        return YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as error:
        raise _syntax_error(error, text, file) from None
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise TaskError("this is not YAML: a character that no text holds", file=file, line=line) from None
    except RecursionError:
        raise TaskError("this is nested too deeply", file=file) from None
    except Exception as error:  # noqa: BLE001  whatever a parser may raise on odd bytes, the file is what is wrong
        raise TaskError(f"this is not YAML: {' '.join(str(error).split())}", file=file) from None


def _syntax_error(error: Any, text: str, file: str | None) -> TaskError:
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else None
    problem = str(error.problem or error.context or "this is not YAML")
    lines = text.split("\n")
    source = lines[line - 1] if line and line <= len(lines) else ""
    if "'\\t'" in problem or "\t" in source[: len(source) - len(source.lstrip())]:
        return TaskError("a tab stands in the indentation", file=file, line=line, suggestion="indent with spaces")
    if "another document" in problem:
        return TaskError("only one document may stand here", file=file, line=line, suggestion="remove '---'")
    hint = _quote_hint(source)
    return TaskError(f"this is not YAML: {problem}", file=file, line=line, suggestion=hint)


def _quote_hint(source: str) -> str | None:
    if re.search(r"[:,\[-]\s*\{\{", source):
        return _BRACES_HINT
    if re.search(r":\s+\S.*:\s", source):
        return "put text that contains ': ' in quotes"
    return None


class _Reader:
    """Turns ruamel's nodes into plain data and notes their lines."""

    def __init__(self, file: str | None) -> None:
        self.file = file
        self.lines: dict[Loc, int] = {}
        self.text_lines: dict[Loc, int] = {}
        self.num_nodes = 0

    def document(self, root: Any) -> YamlDocument:
        self.lines[()] = root.start_mark.line + 1
        data = self.read(root, (), ())
        return YamlDocument(data, self.lines, self.text_lines, self.file)

    def read(self, node: Any, loc: Loc, parents: tuple[int, ...]) -> Any:
        self.num_nodes += 1
        if id(node) in parents:
            raise self.error(node, "an alias (*) points to what it stands in")
        if self.num_nodes > _MAX_NODES:
            raise self.error(node, "the file is too large", "move the samples to a .jsonl file")
        inside = (*parents, id(node))
        tag = str(node.tag)
        if tag == _TAG + "map":
            return self.mapping(node, loc, inside)
        if tag == _TAG + "seq":
            return [self.item(child, (*loc, index), inside) for index, child in enumerate(node.value)]
        if isinstance(node.value, list):
            raise self.tag_error(node, tag)
        return self.scalar(node, tag, loc)

    def item(self, node: Any, loc: Loc, parents: tuple[int, ...]) -> Any:
        self.lines[loc] = node.start_mark.line + 1
        return self.read(node, loc, parents)

    def mapping(self, node: Any, loc: Loc, parents: tuple[int, ...]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = self.key(key_node)
            here = (*loc, key)
            if key in result:
                first = self.lines[here]
                raise self.error(key_node, f"the key {key!r} stands here twice (first on line {first})", "remove one")
            self.lines[here] = key_node.start_mark.line + 1
            result[key] = self.read(value_node, here, parents)
        return result

    def key(self, node: Any) -> str:
        if isinstance(node.value, list):
            raise self.error(node, "a mapping or list stands where a key should", _BRACES_HINT)
        if str(node.tag) == _TAG + "merge":
            raise self.error(node, "merge keys (<<) are not supported", "write the keys out")
        return str(node.value)

    def scalar(self, node: Any, tag: str, loc: Loc) -> Any:
        text = str(node.value)
        kind = tag.removeprefix(_TAG)
        if node.style == "|":
            self.text_lines[loc] = node.start_mark.line + 2
        if kind in ("str", "timestamp"):
            return text
        if kind == "null":
            return None
        if kind == "bool":
            return text.lower() == "true"
        if kind in ("int", "float"):
            return self.number(node, kind, text)
        raise self.tag_error(node, tag)

    def number(self, node: Any, kind: str, text: str) -> int | float:
        bare = text.lower().replace("_", "")
        try:
            if kind == "float":
                return float(re.sub(r"\.(inf|nan)$", r"\1", bare))
            return int(bare, 0) if re.match(r"[-+]?0[xob]", bare) else int(bare, 10)
        except ValueError:
            raise self.error(node, f"{text!r} is not a number that can be read", "put it in quotes") from None

    def tag_error(self, node: Any, tag: str) -> TaskError:
        return self.error(node, f"the tag {tag.replace(_TAG, '!!')!r} is not supported", "remove it")

    def error(self, node: Any, message: str, suggestion: str | None = None) -> TaskError:
        return TaskError(message, file=self.file, line=node.start_mark.line + 1, suggestion=suggestion)
