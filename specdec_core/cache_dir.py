"""The cache folder: models built once, trusted only when complete, and hashes of weights.

A build happens in a temporary folder beside its destination, under a lock, and ends with one rename. The metadata file
is written last, so a folder without it was never finished. Whatever a killed build leaves is swept by the next one.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

__all__ = [
    "METADATA_NAME",
    "build_once",
    "cache_root",
    "cached_folder",
    "file_sha256",
    "is_intact",
    "remembered_sha256",
    "weights_hash",
]

METADATA_NAME = "specdec.json"
_BLOCK_BYTES = 1 << 22


def cache_root() -> Path:
    """``$SPECDEC_CACHE``, or the user's cache folder. It need not exist yet."""
    override = os.environ.get("SPECDEC_CACHE")
    if override:
        return Path(override).expanduser().absolute()
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("specdec", appauthor=False))


def cached_folder(name: str) -> Path | None:
    """The finished folder ``models/<name>``, or None when it is absent, unfinished, or its weights changed size."""
    folder = cache_root() / "models" / name
    try:
        metadata = json.loads((folder / METADATA_NAME).read_text(encoding="utf-8"))
        sizes: dict[str, int] = metadata["weight_bytes"]
        complete = all((folder / file_name).stat().st_size == size for file_name, size in sizes.items())
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return folder if complete else None


def build_once(name: str, build: Callable[[Path], dict[str, Any]]) -> Path:
    """The folder ``models/<name>``, built unless it is there; of several processes one builds, the others wait.

    Args:
        name: Of the folder; says what is in it.
        build: Fills the empty folder it is given and returns facts worth keeping (source, its hash).

    Returns:
        The finished folder. An exception of ``build`` passes through and leaves nothing behind.
    """
    from filelock import FileLock

    folder = cached_folder(name)
    if folder is not None:  # the usual case takes no lock: a finished folder never changes
        return folder
    parent = cache_root() / "models"
    parent.mkdir(parents=True, exist_ok=True)
    with FileLock(parent / f"{name}.lock"):
        folder = cached_folder(name)
        if folder is not None:
            return folder
        for stale in [*parent.glob(f"{name}.partial-*"), parent / name]:  # we hold the lock: nobody is writing these
            shutil.rmtree(stale, ignore_errors=True)
        partial = Path(tempfile.mkdtemp(prefix=f"{name}.partial-", dir=parent))
        try:
            _finish(partial, build(partial))
            os.rename(partial, parent / name)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        _sync(parent)
    return parent / name


def is_intact(folder: Path) -> bool:
    """Whether the weights of a finished folder are what was written there: all of them are read."""
    metadata = json.loads((folder / METADATA_NAME).read_text(encoding="utf-8"))
    return bool(_combined_sha256(sorted(folder.glob("*.safetensors"))) == metadata["weights_hash"])


def weights_hash(folder: Path, files: Sequence[Path]) -> str:
    """SHA-256 over the contents of a model's safetensors files: from the folder's own metadata where we built it."""
    metadata = folder / METADATA_NAME
    if metadata.is_file():
        stored = json.loads(metadata.read_text(encoding="utf-8")).get("weights_hash")
        if isinstance(stored, str):
            return stored
    return remembered_sha256(files)


def remembered_sha256(files: Sequence[Path]) -> str:
    """SHA-256 over the contents of files, in order, remembered by path, size and modification time."""
    stats = [(str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    note = cache_root() / "hashes" / hashlib.sha256(json.dumps(stats).encode()).hexdigest()[:32]
    try:
        remembered = note.read_text(encoding="ascii")
    except OSError:
        remembered = ""
    if len(remembered) == 64:
        return remembered
    digest = _combined_sha256(files)
    _remember(note, digest)
    return digest


def file_sha256(path: Path) -> str:
    """Hex SHA-256 of a file's contents."""
    return _combined_sha256([path])


def _combined_sha256(files: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
    return digest.hexdigest()


def _remember(note: Path, digest: str) -> None:
    """Keep a hash; a read-only cache folder costs only time at the next start."""
    try:
        note.parent.mkdir(parents=True, exist_ok=True)
        partial = note.with_name(f"{note.name}.{os.getpid()}")
        partial.write_text(digest, encoding="ascii")
        os.replace(partial, note)
    except OSError:
        return


def _finish(folder: Path, facts: dict[str, Any]) -> None:
    """Bring the files to disk, then write the metadata that makes them trusted."""
    weights = sorted(folder.glob("*.safetensors"))
    metadata = facts | {
        "weights_hash": _combined_sha256(weights),
        "weight_bytes": {path.name: path.stat().st_size for path in weights},
    }
    for path in folder.iterdir():
        _sync(path)
    marker = folder / METADATA_NAME
    marker.write_text(json.dumps(metadata, indent=1, sort_keys=True), encoding="utf-8")
    _sync(marker)
    _sync(folder)


def _sync(path: Path) -> None:
    if os.name == "nt":  # folders cannot be opened there, and the rename is what matters
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
