"""HumanEval (Chen et al. 2021, arXiv 2107.03374) as chat: the prompt, the code of an answer, and whether it passes.

Generated code runs here with the rights of whoever starts it. It gets a process of its own (``python -I``), an empty
temporary folder, no environment, and limits on time, memory, file size, open files and processes; nothing more. That
stops accidents, not malice: let only models write whose code you would run by hand.
"""

from __future__ import annotations

import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

TIME_LIMIT_S = 10
MEMORY_LIMIT_BYTES = 1 << 30
FILE_LIMIT_BYTES = 1 << 20
REASON_LIMIT = 400  # characters

_INSTRUCTION = (
    "Complete this Python function. Answer with the whole function, imports included, in one code block and nothing "
    "else.\n\n```python\n{code}```"
)
_BLOCK = re.compile(r"```[a-zA-Z]*\n(.*?)(?:```|\Z)", re.DOTALL)


def instruction(problem: Mapping[str, str]) -> str:
    """What the model is asked."""
    return _INSTRUCTION.format(code=problem["prompt"])


def code_of(answer: str) -> str:
    """The first code block of an answer, or all of it where there is none."""
    found = _BLOCK.search(answer)
    return found.group(1) if found else answer


def why_it_fails(problem: Mapping[str, str], answer: str) -> str | None:
    """None where the answer's code passes the problem's tests; else the line that failed and the error, in words."""
    lines = (code_of(answer), problem["test"], f"check({problem['entry_point']})", "print('passed all')")
    program = "\n\n".join(lines)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.py"
        path.write_text(program, encoding="utf-8")
        try:
            done = subprocess.run(
                [sys.executable, "-I", str(path)],
                cwd=folder,
                env={},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=2 * TIME_LIMIT_S,  # of waiting; the limit below is of computing
                preexec_fn=_limit,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"It did not end within {2 * TIME_LIMIT_S} seconds."
    if done.returncode == 0 and done.stdout.endswith("passed all\n"):
        return None
    return _reason(done.stderr, done.returncode)[:REASON_LIMIT]


def _limit() -> None:
    """Runs in the child, before the program."""
    resource.setrlimit(resource.RLIMIT_CPU, (TIME_LIMIT_S, TIME_LIMIT_S))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT_BYTES, MEMORY_LIMIT_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_LIMIT_BYTES, FILE_LIMIT_BYTES))
    resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _reason(stderr: str, status: int) -> str:
    """The failing line and the error out of a traceback."""
    lines = [line.strip() for line in stderr.strip().splitlines() if set(line.strip()) - set("^~ ")]
    if status == -9 or status == -24:  # SIGKILL, SIGXCPU
        return f"It did not end within {TIME_LIMIT_S} seconds of computing."
    if not lines:
        return f"The program ended with status {status} before its tests were through."
    frames = [index for index, line in enumerate(lines) if line.startswith('File "')]
    code = lines[frames[-1] + 1] if frames and frames[-1] + 1 < len(lines) - 1 else None
    error = lines[-1]
    return f"This line failed with {error.rstrip(': ')}: {code}" if code else f"The program failed with {error}"
