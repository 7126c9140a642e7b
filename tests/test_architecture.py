"""The shape of both packages: layers, no cycles, third parties in their rooms, small files, exports, light imports.

The checks themselves are in ``tests/architecture.py``; the second half of this file shows that each of them can fail.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture import Tree, confinement, cycles, exports, forbidden_names, layering, sizes

ROOT = Path(__file__).parent.parent
LOOPENG, SPECDEC = Tree(ROOT / "loopeng"), Tree(ROOT / "specdec_core")
BOTH = pytest.mark.parametrize("tree", [SPECDEC, LOOPENG], ids=lambda tree: tree.package)

# A line may import itself and the lines above it.
LAYERS = {
    "specdec_core": [
        ["errors"],
        ["sequences", "theory"],
        ["exclusive", "out_of_memory"],
        ["cache_dir"],
        ["metrics"],
        ["logprobs", "noise", "processors"],
        ["sampling"],
        ["types"],
        ["verification"],
        ["verification_batched"],
        ["kv_cache", "prefix_cache"],
        ["models.*"],
        ["hardware"],
        ["context_length"],
        ["tokenizer"],
        ["checkpoint"],
        ["embedded", "loading_gguf", "loading_transformers"],
        ["examining", "loading_sources"],
        ["loading"],
        ["drafters"],
        ["schema_keywords"],
        ["structured"],
        ["acceptance", "pass_costs"],
        ["controller"],
        ["goodput"],
        ["stopping"],
        ["request_reading"],
        ["decoder"],
        ["engine"],
        ["integrations"],
        ["audit", "testing", "replay"],
        ["server.refusals", "server.wire"],
        ["server.access", "server.metrics"],
        ["server.reading", "server.worker"],
        ["server.replies", "server.streaming"],
        ["server.app"],
        ["server"],
        ["__init__"],
        ["profile"],
        ["cli"],
    ],
    "loopeng": [
        ["errors", "settings"],
        ["validation"],
        ["references", "yaml_lines"],
        ["schema"],
        ["ports"],
        ["prompts", "prompt_file"],
        ["store"],
        ["sandbox"],
        ["engines"],
        ["evaluators"],
        ["agents"],
        ["dataset", "task_source", "task_checks", "task_file", "task_schema", "starter"],
        ["attempt"],
        ["patterns"],
        ["run_summary", "run_records", "side_by_side", "runner", "rescoring", "live"],
        [
            "improve.rules",
            "improve.choosing",
            "improve.spending",
            "improve.exporting",
            "improve.verifying",
            "improve.webhook",
        ],
        ["improve.replaying"],
        ["improve.reproduction", "improve.guards", "improve.gate", "improve.watch"],
        ["improve.reflection", "improve.unproposed", "improve.publishing"],
        ["improve.nodes"],
        ["improve.graph"],
        ["improve.cycle"],
        ["improve.submitting", "improve.working"],
        ["improve"],
        ["approvals", "cards"],
        ["checking", "doctor"],
        ["run_statistics"],
        ["run_rates", "run_diff"],
        ["report"],
        ["queue_door", "results"],
        ["live_door"],
        ["gepa_bridge"],
        ["api"],
        ["__init__"],
        ["cli"],
        ["__main__"],
    ],
}

# Third party: the only files that may import it. ruff's banned-api says the same while one types.
ROOMS = {
    "specdec_core": {
        "transformers": [
            "specdec_core/checkpoint.py",
            "specdec_core/embedded.py",
            "specdec_core/loading*.py",
            "specdec_core/models/transformers.py",
            "specdec_core/tokenizer.py",
        ],
        "matplotlib": ["specdec_core/profile/report.py"],
        "typer": ["specdec_core/cli/**"],
        "llguidance": ["specdec_core/structured.py"],
        "prometheus_client": ["specdec_core/server/**"],
        "starlette": ["specdec_core/server/**"],
        "uvicorn": ["specdec_core/server/**"],
        "loopeng": [],
        "langgraph": [],
        "langchain_core": ["specdec_core/integrations/**"],
        "sqlmodel": [],
        "sqlalchemy": [],
        "alembic": [],
    },
    "loopeng": {
        "specdec_core": [
            "loopeng/engines/specdec.py",
            "loopeng/engines/specdec_chat.py",
            "loopeng/engines/specdec_endpoint.py",
        ],
        "langgraph": ["loopeng/agents/graphs.py", "loopeng/attempt/**", "loopeng/improve/**"],
        "langchain_core": ["loopeng/agents/graphs.py", "loopeng/attempt/**", "loopeng/improve/**"],
        "sqlmodel": ["loopeng/store/**"],
        "sqlalchemy": ["loopeng/store/**"],
        "alembic": ["loopeng/store/**"],
        "typer": ["loopeng/cli/**"],
        "pydantic_settings": ["loopeng/settings.py"],
        "scipy": ["loopeng/improve/**", "loopeng/patterns/**", "loopeng/run_statistics.py"],
        "sklearn": ["loopeng/patterns/**"],
        "httpx": ["loopeng/engines/openai_transport.py", "loopeng/improve/**"],
        "gepa": ["loopeng/gepa_bridge.py"],
        "jsonschema": ["loopeng/evaluators/**"],
        "rapidfuzz": ["loopeng/evaluators/**"],
        "rouge_score": ["loopeng/evaluators/**"],
        "sacrebleu": ["loopeng/evaluators/**"],
        "langdetect": ["loopeng/evaluators/**"],
        "defusedxml": ["loopeng/evaluators/**"],
        "torch": [],
        "transformers": [],
        "safetensors": [],
        "gguf": [],
        "huggingface_hub": [],
        "prometheus_client": [],
        "starlette": [],
        "uvicorn": [],
    },
}

# "path" or "path::function": the reason. Empty is the aim.
_FIRST_SCHEMA = "loopeng/store/migrations/versions/v0001_first_schema.py"
SIZE_EXCEPTIONS: dict[str, str] = {
    _FIRST_SCHEMA: "the tables as they were, one after the other; never edited again",
    f"{_FIRST_SCHEMA}::_create_attempts": "one call per table, one line per column",
    f"{_FIRST_SCHEMA}::_create_proposals": "one call per table, one line per column",
}

NO_EXPORTS = ["loopeng/store/migrations/**", "**/__main__.py"]  # run by path or by -m, never imported from
FORBIDDEN = ["**/utils.py", "loopeng/**/models.py", "loopeng/models.py"]
HEAVY = {
    "torch",
    "transformers",
    "langgraph",
    "langchain_core",
    "numpy",
    "scipy",
    "sklearn",
    "httpx",
    "starlette",
    "uvicorn",
}


@BOTH
def test_imports_point_one_way(tree: Tree) -> None:
    assert layering(tree, LAYERS[tree.package]) == []


@BOTH
def test_there_is_no_import_cycle(tree: Tree) -> None:
    assert cycles(tree) == []


@BOTH
def test_third_parties_stay_in_their_rooms(tree: Tree) -> None:
    assert confinement(tree, ROOMS[tree.package]) == []


@BOTH
def test_files_and_functions_are_small(tree: Tree) -> None:
    assert sizes(tree, SIZE_EXCEPTIONS) == []
    assert all(reason.strip() for reason in SIZE_EXCEPTIONS.values())


@BOTH
def test_all_is_complete_and_sorted(tree: Tree) -> None:
    assert exports(tree, exempt=NO_EXPORTS) == []


@BOTH
def test_files_are_named_by_what_they_do(tree: Tree) -> None:
    assert forbidden_names(tree, FORBIDDEN) == []


@pytest.mark.parametrize(
    ("code", "needs"),
    [
        ("import loopeng; loopeng.__version__; dir(loopeng)", "loopeng/__init__.py"),
        ("import specdec_core; dir(specdec_core)", "specdec_core/__init__.py"),
        ("from loopeng import EvalResult, load_task, evaluator", "loopeng/task_file.py"),
        ("from loopeng import Loop", "loopeng/api.py"),
        (
            "import sys; sys.argv = ['loopeng', '--help']; from loopeng.cli import main; main()",
            "loopeng/cli/__init__.py",
        ),
    ],
)
def test_light_entrances_load_nothing_heavy(code: str, needs: str) -> None:
    if not (ROOT / needs).exists():
        pytest.skip(f"{needs} is not there yet")
    assert _loaded_by(code) & HEAVY == set()


def test_the_check_of_light_entrances_sees_a_heavy_one() -> None:
    assert "numpy" in _loaded_by("import numpy") & HEAVY


@pytest.mark.parametrize("name", ["loopeng", "specdec_core"])
def test_every_export_of_a_package_is_there(name: str) -> None:
    """The lazy table, the names for type checkers and ``__all__`` say the same."""
    package = __import__(name)
    assert set(package._MODULES) | {"__version__"} == set(package.__all__)
    missing = [module for module in set(package._MODULES.values()) if not _exists(module)]
    if missing:
        pytest.skip(f"not there yet: {', '.join(missing)}")
    for exported in package.__all__:
        assert getattr(package, exported) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = package.nothing


def _exists(module: str) -> bool:
    stem = ROOT.joinpath(*module.split("."))
    return stem.with_suffix(".py").exists() or (stem / "__init__.py").exists()


def _loaded_by(code: str) -> set[str]:
    """Names of the top-level modules in a fresh interpreter after ``code``."""
    ending = "import json, sys; print('\\n' + json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
    script = f"try:\n    {code}\nexcept SystemExit as stop:\n    assert not stop.code, stop.code\n{ending}"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


# Each check on a tree that breaks its rule.


def plant(folder: Path, files: dict[str, str]) -> Tree:
    for name, text in {"__init__.py": "", **files}.items():
        path = folder / "house" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return Tree(folder / "house")


HOUSE = [["ground"], ["rooms.attic"], ["rooms.*"], ["roof"], ["__init__"]]


@pytest.mark.parametrize(
    ("files", "finding"),
    [
        ({"ground.py": "from house.roof import tile", "roof.py": ""}, "house/ground.py:1 imports house.roof"),
        ({"ground.py": "import house.roof", "roof.py": ""}, "house/ground.py:1 imports house.roof"),
        ({"ground.py": "from house import roof", "roof.py": ""}, "house/ground.py:1 imports house.roof"),
        ({"ground.py": "from . import roof", "roof.py": ""}, "house/ground.py:1 imports house.roof"),
        (
            {"ground.py": "def f():\n    from house.roof import tile", "roof.py": ""},
            "house/ground.py:2 imports house.roof",
        ),
        (
            {"ground.py": "if TYPE_CHECKING:\n    import house.roof", "roof.py": ""},
            "house/ground.py:2 imports house.roof",
        ),
        ({"ground.py": "import_module('house.roof')", "roof.py": ""}, "house/ground.py:1 imports house.roof"),
        ({"ground.py": "from house import tile"}, "house/ground.py:1 imports house,"),
        (
            {"rooms/attic.py": "import house.rooms.hall", "rooms/hall.py": ""},
            "imports house.rooms.hall, which stands below",
        ),
        ({"cellar.py": ""}, "house/cellar.py stands in no layer: place it in the list"),
    ],
)
def test_layering_finds(tmp_path: Path, files: dict[str, str], finding: str) -> None:
    assert [text for text in layering(plant(tmp_path, files), HOUSE) if finding in text]


def test_layering_lets_a_line_import_what_is_above_and_beside_it(tmp_path: Path) -> None:
    files = {
        "ground.py": "import os",
        "rooms/hall.py": "from house.rooms import attic",
        "rooms/attic.py": "import house.ground",
    }
    assert layering(plant(tmp_path, files | {"rooms/__init__.py": "from house.rooms.hall import x"}), HOUSE) == []


@pytest.mark.parametrize(
    "files",
    [
        {"a.py": "import house.b", "b.py": "def f():\n    import house.a"},
        {"a/__init__.py": "from house.a.b import x", "a/b.py": "from house.a import y"},
    ],
)
def test_cycles_are_found(tmp_path: Path, files: dict[str, str]) -> None:
    assert "import cycle: " in cycles(plant(tmp_path, files))[0]


def test_a_package_that_re_exports_is_no_cycle(tmp_path: Path) -> None:
    assert (
        cycles(
            plant(tmp_path, {"a/__init__.py": "from house.a.b import x", "a/b.py": "import house.a.c", "a/c.py": ""})
        )
        == []
    )


def test_confinement_finds_a_third_party_outside_its_room(tmp_path: Path) -> None:
    tree = plant(
        tmp_path,
        {"a.py": "def f():\n    from torch.nn import Linear", "deep/b.py": "import torch", "c.py": "import torchx"},
    )
    assert len(confinement(tree, {"torch": []})) == 2
    assert [text.split(" ")[0] for text in confinement(tree, {"torch": ["house/*.py"]})] == ["house/deep/b.py:1"]
    assert confinement(tree, {"torch": ["house/**"]}) == []


def test_sizes_finds_long_files_long_functions_and_stale_exceptions(tmp_path: Path) -> None:
    long_function = "class A:\n    def f(self):\n" + "        x = 1\n" * 39
    tree = plant(tmp_path, {"long.py": "\n" * 300, "wide.py": long_function, "small.py": ""})
    assert sizes(tree, {}) == ["house/long.py has 300 lines", "house/wide.py:2 A.f has 40 lines"]
    excepted = {"house/long.py": "why", "house/wide.py::A.f": "why", "house/small.py": "why"}
    assert sizes(tree, excepted) == ["house/small.py is excepted but small enough"]


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("def f(): ...", "has no __all__"),
        ("import os", "has no __all__"),
        ("__all__ = []\ndef f(): ...", "__all__ lacks f"),
        ("__all__ = []\nif True:\n    LIMIT: int = 3", "__all__ lacks LIMIT"),
        ("__all__ = ['gone']", "__all__ names gone"),
        ("__all__ = ['a', 'B']\ndef a(): ...\nclass B: ...", "__all__ is not sorted"),
        ("__all__ = ['Ab', 'CD']\nclass Ab: ...\nCD = 1", "__all__ is not sorted"),
    ],
)
def test_exports_finds(tmp_path: Path, text: str, finding: str) -> None:
    findings = exports(plant(tmp_path, {"a.py": text}))
    assert len(findings) == 1
    assert finding in findings[0]


def test_exports_accepts_complete_lists_and_exempt_places(tmp_path: Path) -> None:
    text = "from os import path\n__all__ = ['CD', 'Ab', 'a2', 'a10', 'path']\n"
    text += "CD = a2 = 1\nclass Ab: ...\ndef a10(): ...\n_own = 2"
    assert exports(plant(tmp_path, {"a.py": text, "m/b.py": "def upgrade(): ..."}), exempt=["house/m/**"]) == []


def test_forbidden_names_are_found(tmp_path: Path) -> None:
    tree = plant(tmp_path, {"deep/utils.py": "", "deep/models.py": "", "models.py": "", "useful.py": ""})
    assert len(forbidden_names(tree, ["**/utils.py", "house/**/models.py", "house/models.py"])) == 3
