"""A task's keys with their places: turns a problem into a TaskError that names file, line, key and a way out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loopeng.errors import TaskError
from loopeng.schema import Rule
from loopeng.validation import Loc, Problem
from loopeng.yaml_lines import YamlDocument, parse_yaml, read_text

__all__ = ["TaskSource", "TemplateText"]


@dataclass(frozen=True)
class TaskSource:
    """What a task is made from. ``base_dir`` is where its relative paths begin."""

    document: YamlDocument
    base_dir: Path
    path: Path | None = None

    @classmethod
    def from_file(cls, path: Path) -> TaskSource:
        """Read a task file. Raises TaskError."""
        document = parse_yaml(read_text(path), file=str(path))
        return cls(document, path.parent, path)

    @property
    def data(self) -> Any:
        """The keys as plain data."""
        return self.document.data

    def has(self, loc: Loc) -> bool:
        """Whether the keys say anything at ``loc``."""
        data = self.data
        for part in loc:
            try:
                data = data[part]
            except (KeyError, IndexError, TypeError):
                return False
        return True

    def error(self, problem: Problem) -> TaskError:
        """The problem, with its place."""
        line = self.document.line(problem.loc)
        return TaskError(problem.message, file=self.document.file, line=line, suggestion=problem.suggestion)

    def raise_first(self, problems: Sequence[Problem]) -> None:
        """Raise the problem that stands first in the file, if there is one."""
        if problems:
            raise self.error(min(problems, key=lambda problem: self.document.line(problem.loc) or 0))

    def shown(self, path: str) -> str:
        """A path of the task file as the user would name it from where they are."""
        return str(self.base_dir / path)


@dataclass(frozen=True)
class TemplateText:
    """The prompt's template as people wrote it: in the task file, or in a file of its own."""

    text: str
    loc: Loc
    source: TaskSource
    own_file: str | None = None
    first_line: int = 1  # of the text, in its own file
    rules: tuple[Rule, ...] | None = None  # of its own file's front matter

    def error(self, message: str, suggestion: str | None = None, *, line: int = 1) -> TaskError:
        """A mistake on a line of the text, counted from 1."""
        if self.own_file is not None:
            return TaskError(message, file=self.own_file, line=self.first_line + line - 1, suggestion=suggestion)
        document = self.source.document
        place = document.text_line(self.loc, line)
        return TaskError(message, file=document.file, line=place, suggestion=suggestion)
