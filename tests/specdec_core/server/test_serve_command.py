"""The command ``specdec serve`` as a process: started, asked, ended."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import openai
import pytest

from specdec_core.cli import main
from specdec_core.engine import load_engine
from specdec_core.server.running import bind
from specdec_core.types import GenerationRequest
from tests.specdec_core.server.asking import ask

SERVE = [sys.executable, "-m", "specdec_core.cli", "serve"]
QUICK = ["--exactness", "law", "--context-length", "256"]
KEY = "a-key-that-no-log-may-hold"


@dataclass
class Serving:
    process: subprocess.Popen[str]
    url: str
    said: list[str]

    def end(self, sent: signal.Signals) -> int:
        self.process.send_signal(sent)
        self.said += [line.rstrip() for line in self.process.stderr or ()]
        return self.process.wait(30)


@contextmanager
def serving(*arguments: str, key: str | None = None) -> Iterator[Serving]:
    environment = {name: value for name, value in os.environ.items() if name != "SPECDEC_API_KEY"}
    environment |= {"SPECDEC_API_KEY": key} if key else {}
    command = [*SERVE, "--port", "0", *QUICK, *arguments]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as made:
        assert made.stderr is not None
        try:
            said = []
            for line in made.stderr:
                said.append(line.rstrip())
                if (found := re.search(r"is served at (http://\S+/v1)", line)) is not None:
                    yield Serving(made, found[1], said)
                    break
            else:
                pytest.fail("\n".join(said))
        finally:
            made.kill()


def test_a_model_is_served_until_ctrl_c(embedded_folder) -> None:
    with serving("smollm2-135m", key=KEY) as server:
        assert ask(server.url, "/v1/models").status == 401
        assert ask(server.url, "/v1/models", token=KEY).json["data"][0]["id"] == "smollm2-135m"
        assert ask(server.url, "/v1/completions", {"prompt": "Once"}, token=KEY).status == 200
        assert server.end(signal.SIGINT) == 130
        said = "\n".join(server.said)
        assert '"POST /v1/completions HTTP/1.1" 200' in said
        assert KEY not in said and "Traceback" not in said
        assert server.process.stdout is not None and server.process.stdout.read() == ""


@pytest.mark.slow
def test_the_text_is_the_engines_and_ctrl_c_lets_it_end(embedded_folder) -> None:
    engine = load_engine(str(embedded_folder), exactness="bitwise", context_length=256)
    request = GenerationRequest(prompt="Once", sampling={"max_tokens": 40, "temperature": 0.7, "seed": 1})
    text = engine.generate(request).text
    with serving("--served-model-name", "mine", "--exactness", "bitwise") as server:
        with openai.OpenAI(base_url=server.url, api_key="any", max_retries=0) as client:
            stream = client.completions.create(
                model="mine", prompt="Once", max_tokens=40, temperature=0.7, seed=1, stream=True
            )
            first = next(stream)
            server.process.send_signal(signal.SIGINT)
            choices = [first.choices[0], *(chunk.choices[0] for chunk in stream)]
        assert "".join(choice.text for choice in choices) == text
        assert choices[-1].finish_reason in ("length", "stop")
        assert server.process.wait(30) == 130
        with pytest.raises(OSError, match="refused"):
            ask(server.url, "/health")


def test_what_cannot_be_served_is_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["specdec", "serve", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr().err.strip()
        assert len(said.splitlines()) == 1
        return int(ended.value.code or 0), said

    monkeypatch.setenv("SPECDEC_API_KEY", "")
    code, said = refused("--host", "0.0.0.0")
    assert code == 2 and "everybody who reaches this machine" in said
    assert refused("--api-key", "") == (2, "specdec: the API key is empty: leave it out, or give one")
    code, said = refused("--api-key", KEY + "\n")
    assert code == 2 and "the API key must be plain ASCII" in said and KEY not in said
    with bind("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        code, said = refused("--port", str(port))
    assert code == 1 and f"cannot listen on '127.0.0.1', port {port}" in said


@pytest.mark.parametrize("library", ["starlette", "uvicorn", "prometheus_client"])
def test_without_the_extra_the_command_says_what_to_install(library: str) -> None:
    program = f"import sys; sys.modules[{library!r}] = None; sys.argv[1:] = ['serve']; "
    program += "from specdec_core.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"specdec: serving needs {library}" in done.stderr and "pip install 'loopeng[serve]'" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
