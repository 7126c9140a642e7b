"""``load_task``: a task.yaml and its data as one frozen, checked ``Task``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from loopeng.dataset import Row, make_samples, read_rows
from loopeng.errors import TaskError
from loopeng.prompt_file import parse_prompt_file
from loopeng.prompts import PromptTemplate
from loopeng.schema import Sample, Task, TaskFile
from loopeng.schema.task import PromptSpec
from loopeng.task_checks import check_placeholders, problems_of_keys
from loopeng.task_source import TaskSource, TemplateText
from loopeng.validation import Loc, Problem, did_you_mean, key_path, validated
from loopeng.yaml_lines import YamlDocument, read_text

__all__ = ["load_task", "task_from_dict"]


def load_task(path: str | Path) -> Task:
    """The task of a task.yaml, or of a folder that holds one.

    Raises TaskError for the first mistake: file, line, key, what is wrong, and where it can be said, what was meant.
    """
    path = Path(path)
    if path.is_dir():
        path = path / "task.yaml"
    return _load(TaskSource.from_file(path))


def task_from_dict(data: Mapping[str, Any], base_dir: str | Path | None = None) -> Task:
    """A task from the keys of a task file, without the file. Relative paths begin at ``base_dir``, or here.

    Raises TaskError as ``load_task`` does, without lines.
    """
    return _load(TaskSource(YamlDocument(dict(data)), Path(base_dir or ".")))


def _load(source: TaskSource) -> Task:
    keys = _keys(source)
    source.raise_first(problems_of_keys(keys, source))
    written = _template_text(keys, source)
    template = _template(keys, written)
    rows, samples = _samples(keys, source)
    values = {name: getattr(keys, name) for name in TaskFile.model_fields}
    path = source.path.resolve() if source.path else None
    task = Task(**values, template=template.template, file_rules=written.rules, samples=samples, path=path)
    check_placeholders(task, written, rows, source)
    return task


def _keys(source: TaskSource) -> TaskFile:
    if not isinstance(source.data, dict):
        hint = "begin with version: 1"
        raise source.error(Problem((), "a task file is a mapping (key: value)", hint))
    keys = validated(TaskFile, source.data)
    if isinstance(keys, TaskFile):
        return keys
    source.raise_first(keys)
    raise AssertionError("a refused task file without a problem")


def _template(keys: TaskFile, written: TemplateText) -> PromptTemplate:
    what = key_path(written.loc)
    try:
        template = PromptTemplate(written.text)
    except TaskError as error:
        raise written.error(f"{what}: {error.message}", error.suggestion, line=error.line or 1) from None
    if written.rules and not template.has_rules_slot:
        message = f"{what}: there is no {{{{ rules }}}}, but front matter with {len(written.rules)} rules"
        raise written.error(message, "put {{ rules }} where the rules belong")
    if keys.improve.enabled and not template.has_rules_slot:
        message = f"{what}: there is no {{{{ rules }}}}, so nothing learned could have a place"
        raise written.error(message, "put {{ rules }} at its end, or set improve: {enabled: false}")
    return template


def _template_text(keys: TaskFile, source: TaskSource) -> TemplateText:
    if keys.prompt.file is None:
        text = (keys.prompt.template or "").replace("\r\n", "\n")
        written = TemplateText(text, ("prompt", "template"), source)
    else:
        written = _prompt_file(keys.prompt, source, keys.prompt.file)
    if not written.text.strip():
        raise written.error(f"{key_path(written.loc)}: the template is empty")
    return written


def _prompt_file(prompt: PromptSpec, source: TaskSource, name: str) -> TemplateText:
    loc, shown = ("prompt", "file"), source.shown(name)
    found = parse_prompt_file(_referred(loc, source, name), shown)
    if found.name not in (None, prompt.name):
        message = f"front matter: this is the file of the prompt {found.name!r}, the task's is {prompt.name!r}"
        hint = "change the name here or prompt.name in the task file"
        raise TaskError(message, file=shown, line=found.name_line, suggestion=hint)
    return TemplateText(found.template, loc, source, shown, found.first_line, found.rules)


def _referred(loc: Loc, source: TaskSource, name: str) -> str:
    path = source.base_dir / name
    if not path.is_file():
        raise _no_file(loc, source, name)
    return read_text(path, source.shown(name))


def _no_file(loc: Loc, source: TaskSource, name: str, hint: str | None = None) -> TaskError:
    path = source.base_dir / name
    what = "this is a folder, not a file" if path.is_dir() else "there is no such file"
    folder = path.parent
    near = [each.name for each in folder.iterdir() if each.is_file()] if folder.is_dir() else []
    message = f"{'.'.join(map(str, loc))}: {what}: {source.shown(name)}"
    return source.error(Problem(loc, message, hint or did_you_mean(path.name, near)))


def _samples(keys: TaskFile, source: TaskSource) -> tuple[tuple[Row, ...], tuple[Sample, ...]]:
    spec, loc = keys.dataset, ("dataset", "samples")
    if spec.path is not None:
        if not (source.base_dir / spec.path).is_file():
            hint = f"make it with: {spec.made_by}" if spec.made_by else None
            raise _no_file(("dataset", "path"), source, spec.path, hint)
        rows = read_rows(source.base_dir / spec.path, source.shown(spec.path))
    else:
        document = source.document
        rows = tuple(
            Row(fields, document.file, document.line((*loc, index))) for index, fields in enumerate(spec.samples or ())
        )
        if not rows:
            raise source.error(Problem(loc, "dataset.samples: the dataset is empty", "add at least one sample"))
    return rows, make_samples(rows, spec)
