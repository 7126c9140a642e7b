"""A GGUF file -> a folder of safetensors, config and tokenizer, once, in a process of its own.

A separate process keeps transformers' progress bars off the terminal, gives its memory back, and dies alone. It is
``python -m specdec_core.loading_gguf FILE FOLDER``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from specdec_core.errors import ModelLoadError

__all__ = ["convert_gguf"]


def convert_gguf(gguf: Path, folder: Path) -> None:
    """Dequantise ``gguf`` into ``folder`` (existing, empty). Raises ModelLoadError with the converter's last words."""
    package_parent = str(Path(__file__).resolve().parent.parent)
    search_path = os.pathsep.join(filter(None, [package_parent, os.environ.get("PYTHONPATH")]))
    quiet = {"TQDM_DISABLE": "1", "HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    process = subprocess.run(
        [sys.executable, "-m", "specdec_core.loading_gguf", str(gguf.resolve()), str(folder.resolve())],
        env=os.environ | quiet | {"PYTHONPATH": search_path},
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if process.returncode:
        last_words = (process.stderr.strip().splitlines() or ["no message"])[-1]
        raise ModelLoadError(
            f"{gguf} could not be converted; is it whole? (exit code {process.returncode}) {last_words}"
        )


def _convert(gguf: Path, folder: Path) -> None:
    dtype_name = _stored_dtype(gguf)  # first: a broken file is refused before anything heavy is imported

    import torch
    from safetensors.torch import save_model
    from transformers import AutoModelForCausalLM, AutoTokenizer

    dtype = getattr(torch, dtype_name)
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    model = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=dtype).eval()
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    save_model(model, str(folder / "model.safetensors"), metadata={"format": "pt"})
    model.config.save_pretrained(folder)
    model.generation_config.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _stored_dtype(gguf: Path) -> str:
    """float32 and float16 stay as they are; quantised weights are rounded to bfloat16, which few of them need."""
    from gguf import GGUFReader

    counts = Counter(tensor.tensor_type.name for tensor in GGUFReader(gguf).tensors if len(tensor.shape) > 1)
    kind = counts.most_common(1)[0][0] if counts else "none"
    return {"F32": "float32", "F16": "float16"}.get(kind, "bfloat16")


if __name__ == "__main__":
    _convert(Path(sys.argv[1]), Path(sys.argv[2]))
