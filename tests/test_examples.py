"""Every example runs: the doctests of all modules, and the blocks of the README in a copy of the suites."""

from __future__ import annotations

import doctest
import importlib
import json
import shutil
from pathlib import Path

import pytest
import yaml

from loopeng import load_task
from loopeng.starter import write_starter
from tests.architecture import Tree
from tests.examples import PROGRAMS, Block, Command, blocks, commands, differs, run

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
MODULES = [
    name
    for package in ("specdec_core", "loopeng")
    for name in Tree(ROOT / package).modules
    if not name.endswith("__main__") and ".migrations" not in name
]
BLOCKS = [block for block in blocks(README.read_text(encoding="utf-8")) if block.reason is None]


@pytest.mark.parametrize("name", MODULES)
def test_module_imports_and_its_doctests_pass(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    report: list[str] = []
    for example in doctest.DocTestFinder(exclude_empty=True).find(module, name):
        runner.run(example, out=report.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(report)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the suites as they are in the repository; the README's blocks run in it one after the other."""
    folder = tmp_path_factory.mktemp("readme")
    ignored = shutil.ignore_patterns(".loopeng", "__pycache__")
    shutil.copytree(ROOT / "evals", folder / "evals", ignore=ignored)
    return folder


@pytest.fixture(scope="module")
def names() -> dict[str, object]:
    """Names that the README's python blocks share, as a reader would type them into one session."""
    return {"__name__": "readme"}


@pytest.mark.usefixtures("embedded_folder")
@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"README.md:{block.line}")
def test_readme_block_runs_as_shown(
    block: Block, desk: Path, names: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(desk)
    if block.language == "python":
        exec(compile("\n" * (block.line - 1) + block.text, str(README), "exec"), names)
        return
    if block.language == "yaml":
        load_task(with_block(block.text, desk / "with-block"))
        return
    folder = desk
    for command in commands(block):
        program, *arguments = command.line.split()
        if program == "cd":
            folder /= arguments[0]
            continue
        assert program in PROGRAMS, f"{command.line!r} cannot be run here: excuse the block with a reason"
        output, exit_code = run(command, folder)
        assert exit_code == command.exit_code, output
        if command.output is not None:
            assert differs(command.output, output) is None, differs(command.output, output)


def with_block(text: str, folder: Path) -> Path:
    """The task that ``loopeng init`` writes with the block's sections in place of its own; a list is of evaluators."""
    shutil.rmtree(folder, ignore_errors=True)
    write_starter(folder)
    task, given = yaml.safe_load((folder / "task.yaml").read_text(encoding="utf-8")), yaml.safe_load(text)
    anchor = {"inputs": {"word": "mug"}, "answer": "Please.", "expect": "pass"}
    (folder / "anchors.jsonl").write_text(json.dumps(anchor), encoding="utf-8")
    task |= {"evaluators": given} if isinstance(given, list) else given
    (folder / "task.yaml").write_text(yaml.safe_dump(task), encoding="utf-8")
    return folder


def test_blocks_that_are_not_run_say_why() -> None:
    for block in blocks(README.read_text(encoding="utf-8")):
        assert block.reason != "", f"README.md:{block.line}: '<!-- not run: ... -->' needs a reason"


PAGE = """\
```python
x = 1
```

<!-- not run: needs a network -->
```console
$ loopeng run
```

<!-- not run: -->

```console
$ loopeng run task.yaml \\
>     --json
{...}
$ echo $?
3
$ specdec fetch
```

```text
not an example
```
"""


def test_blocks_are_found_with_their_line_and_their_excuse() -> None:
    found = blocks(PAGE)
    assert [(block.language, block.line, block.reason) for block in found] == [
        ("python", 2, None),
        ("console", 7, "needs a network"),
        ("console", 13, ""),
    ]


def test_commands_carry_output_and_exit_code() -> None:
    assert commands(blocks(PAGE)[2]) == [
        Command("loopeng run task.yaml --json", "{...}", 3),
        Command("specdec fetch", None, 0),
    ]


def test_a_command_runs_for_real(tmp_path: Path) -> None:
    output, exit_code = run(Command("loopeng no-such-command  # as typed", None), tmp_path)
    assert exit_code == 2
    assert "no-such-command" in output


def test_output_is_compared_with_wildcards() -> None:
    assert differs("a ... c\nd", "a b c  \nd\n\n") is None
    assert "printed:\na b d" in str(differs("a ... c", "a b d"))
