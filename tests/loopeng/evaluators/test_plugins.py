"""Types of installed packages: each test lays a real distribution, with its metadata, on the import path."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from loopeng.doctor import examine_libraries
from loopeng.errors import TaskError
from loopeng.evaluators import build_evaluators, evaluator_types, hidden_types, registry, run_evaluators
from loopeng.task_schema import task_json_schema
from tests.loopeng.evaluators.conftest import make_attempt, make_sample

Install = Callable[..., None]

CHECKS = '''
    from loopeng.evaluators import EvaluatorParams, Finding, TypedEvaluator, evaluator


    class PoliteParams(EvaluatorParams):
        """How polite."""

        word: str = "please"


    class Polite(TypedEvaluator[PoliteParams]):
        """The answer asks politely."""

        type_name = "polite"
        params_model = PoliteParams
        plain_categories = frozenset({"polite.rude"})
        negated_category = "polite.polite"

        def check(self, sample, attempt, context):
            polite = self.params.word in attempt.text
            return Finding(polite, float(polite), "looked for the word", "polite.rude", "Be polite.")

        def default_remedy(self, category):
            return "Be polite."


    class Unfinished(TypedEvaluator):
        params_model = PoliteParams


    def shouts(text: str, *, marks: int = 1) -> bool:
        return text.count("!") >= marks


    @evaluator("whispers-for-tests")
    def whispers(text: str) -> bool:
        return text.islower()


    number = 3
'''


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """install(package, source, name="module:object", ...): a distribution that gives evaluator types."""
    monkeypatch.syspath_prepend(str(tmp_path))
    types, modules = dict(registry._TYPES), set(sys.modules)

    def lay(package: str, source: str, version: str = "1.2", **entries: str) -> None:
        (tmp_path / f"{package}.py").write_text(dedent(source))
        metadata = tmp_path / f"{package}-{version}.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
        lines = [f"{name.replace('_', '-')} = {value}" for name, value in entries.items()]
        (metadata / "entry_points.txt").write_text("\n".join(["[loopeng.evaluators]", *lines, ""]))
        importlib.invalidate_caches()

    yield lay
    registry._TYPES.clear()
    registry._TYPES.update(types)
    for name in set(sys.modules) - modules:
        if name.startswith("checks_for_"):
            del sys.modules[name]


def passes(text: str, **keys: object) -> bool | None:
    (result,) = run_evaluators(build_evaluators([{"id": "it", **keys}]), make_sample(), make_attempt(text))
    assert result.error is None
    return result.passed


def test_a_class_a_function_and_a_registered_function_become_types(install: Install) -> None:
    module = "checks_for_types"
    install(
        module,
        CHECKS,
        polite_for_tests=f"{module}:Polite",
        shouts_for_tests=f"{module}:shouts",
        whispers_for_tests=f"{module}:whispers",
    )
    assert passes("sit, please", type="polite-for-tests")
    assert not passes("sit, please", type="polite-for-tests", word="kindly")
    assert passes("no!!", type="shouts-for-tests", marks=2)
    assert passes("hush", type="whispers-for-tests")
    with pytest.raises(TaskError, match=r"unknown key 'words'.*did you mean 'word'"):
        build_evaluators([{"id": "it", "type": "polite-for-tests", "words": "x"}])


def test_nothing_is_imported_before_a_type_is_met(install: Install) -> None:
    module = "checks_for_laziness"
    install(module, CHECKS, polite_for_tests=f"{module}:Polite")
    build_evaluators([{"id": "it", "type": "length", "max_words": 3}])
    with pytest.raises(TaskError, match="did you mean 'polite-for-tests'"):
        build_evaluators([{"id": "it", "type": "polite-for-test"}])
    assert module not in sys.modules
    assert "polite-for-tests" in evaluator_types()
    assert module in sys.modules


def test_they_are_part_of_the_schema_for_editors(install: Install) -> None:
    module = "checks_for_schema"
    install(module, CHECKS, polite_for_tests=f"{module}:Polite")
    definitions = task_json_schema()["$defs"]
    assert definitions["evaluator.polite-for-tests"]["properties"]["word"]["default"] == "please"
    assert {"evaluator.json_schema", "evaluator.composite", "evaluator.tool_calls"} <= definitions.keys()


def test_a_broken_package_is_named_when_its_type_is_asked_for_and_only_then(install: Install) -> None:
    broken, good = "checks_for_broken", "checks_for_good"
    install(broken, "raise ImportError('no such library')", version="0.3", broken_for_tests=f"{broken}:x")
    install(good, CHECKS, fine_for_tests=f"{good}:Polite", number_for_tests=f"{good}:number")
    assert passes("please", type="fine-for-tests")
    assert evaluator_types().keys() & {"fine-for-tests", "broken-for-tests", "number-for-tests"} == {"fine-for-tests"}
    for name, message in {
        "broken-for-tests": "package checks_for_broken 0.3 cannot be loaded: ImportError: no such library",
        "number-for-tests": "package checks_for_good 1.2 is none: 3 is neither a TypedEvaluator nor a function",
    }.items():
        with pytest.raises(TaskError, match=message):
            build_evaluators([{"id": "it", "type": name}])


def test_a_class_that_is_not_finished_says_what_it_lacks(install: Install) -> None:
    module = "checks_for_unfinished"
    install(module, CHECKS, unfinished_for_tests=f"{module}:Unfinished")
    with pytest.raises(TaskError, match="Unfinished does not have check, default_remedy"):
        build_evaluators([{"id": "it", "type": "unfinished-for-tests"}])


def test_two_packages_may_not_give_different_things_under_one_name(install: Install) -> None:
    install("checks_for_one", CHECKS, twice_for_tests="checks_for_one:Polite")
    install("checks_for_two", CHECKS, twice_for_tests="checks_for_two:Polite")
    with pytest.raises(TaskError, match=r"several packages: checks_for_one 1.2, checks_for_two 1.2"):
        build_evaluators([{"id": "it", "type": "twice-for-tests"}])


def test_no_package_replaces_a_type_that_ships(install: Install) -> None:
    install("checks_for_replacing", CHECKS, json="checks_for_replacing:shouts")
    assert not passes("no!", type="json")
    assert "checks_for_replacing" not in sys.modules
    assert hidden_types() == {"json": "checks_for_replacing 1.2"}
    told = {each.name: each for each in examine_libraries()}["plugins"]
    assert (told.status, told.remedy) == ("warn", "give its entry point another name")
    assert "type 'json' of package checks_for_replacing 1.2 cannot be used" in told.text
