"""The command ``specdec``: generate text, look at rounds, fetch and list models, measure passes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specdec_core.cli_profile import profile
from specdec_core.errors import RequestError, SpecDecError

if TYPE_CHECKING:
    from specdec_core.engine import Engine
    from specdec_core.metrics import DecodeStats
    from specdec_core.types import GenerationOutput, GenerationRequest, Round

__all__ = ["app", "describe", "fetch", "generate", "main", "root"]

app = typer.Typer(
    help="Lossless speculative decoding: the text of plain decoding, in fewer passes of the model.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

_DRAFT_TOKENS = typer.Option("--draft-tokens", "-k", min=0, help="Longest draft; default: what a pass can verify.")
_DRAFTER = typer.Option(help="auto, suffix, ngram, model:<reference> or none (plain decoding).")
_REFERENCE = typer.Option(help="File with text to draft from; may be repeated.", encoding="utf-8", errors="replace")
_RAW = typer.Option("--raw", help="Complete the prompt as it stands, without a chat template.")
_TRACE = typer.Option("--trace", help="Print each round: drafted, accepted, recovered or bonus.")
_JSON_SCHEMA = typer.Option(help="JSON Schema that the text must follow: a file, or the JSON itself.")


app.command()(profile)


@app.callback()
def root() -> None:
    """Group of commands."""


@app.command()
def generate(
    prompt: Annotated[str, typer.Option("--prompt", "-p", help="The user's message; '-' reads standard input.")],
    model: Annotated[str, typer.Option("--model", "-m", help="Embedded name, folder, GGUF file or hub id.")] = (
        "smollm2-135m"
    ),
    raw: Annotated[bool, _RAW] = False,
    drafter: Annotated[str, _DRAFTER] = "auto",
    num_speculative_tokens: Annotated[int | None, _DRAFT_TOKENS] = None,
    reference: Annotated[list[typer.FileText] | None, _REFERENCE] = None,
    max_tokens: Annotated[int, typer.Option(min=0)] = 256,
    temperature: Annotated[float, typer.Option(min=0, help="0 takes the most likely token.")] = 0.0,
    top_k: Annotated[int | None, typer.Option(min=1, help="Draw from the k most likely tokens.")] = None,
    top_p: Annotated[float, typer.Option(min=0, max=1, help="Draw from the most likely tokens of this mass.")] = 1.0,
    repetition_penalty: Annotated[float, typer.Option(min=0, help="Above 1: tokens seen are less likely.")] = 1.0,
    json_schema: Annotated[str | None, _JSON_SCHEMA] = None,
    regex: Annotated[str | None, typer.Option(help="Regular expression that the text must match.")] = None,
    stop: Annotated[list[str] | None, typer.Option(help="String that ends the text; may be repeated.")] = None,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    exactness: Annotated[str | None, typer.Option(help="bitwise or law; default by the hardware table.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda.")] = "auto",
    dtype: Annotated[str, typer.Option(help="auto, bfloat16, float32, float16, float64.")] = "auto",
    quantize: Annotated[str | None, typer.Option(help="int8 or int4 weights, where measured to be faster.")] = None,
    stats: Annotated[bool, typer.Option("--stats", help="Counts and rates after the text (stderr).")] = False,
    trace: Annotated[bool, _TRACE] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document instead of the text.")] = False,
) -> None:
    """Generate text.

    Example: specdec generate -p "Name three fruits." --max-tokens 40 --stats
    """
    from specdec_core.engine import load_engine

    sampling: dict[str, Any] = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    sampling |= {"repetition_penalty": repetition_penalty, "stop": tuple(stop or ()), "max_tokens": max_tokens}
    choice: dict[str, Any] = {"exactness": exactness, "device": device, "dtype": dtype, "quantize": quantize}
    form = {"json_schema": _schema_text(json_schema), "regex": regex}
    request = _request(sys.stdin.read() if prompt == "-" else prompt, raw, sampling, reference or [], form)
    engine = load_engine(model, drafter=drafter, num_speculative_tokens=num_speculative_tokens, **choice)
    _run(engine, request, stats=stats, trace=trace, as_json=as_json)


@app.command()
def fetch(model: Annotated[str, typer.Argument(help="Embedded name, GGUF file or hub id.")] = "smollm2-135m") -> None:
    """Download and convert a model into the cache, once. Prints its folder.

    Example: specdec fetch smollm2-135m
    """
    from specdec_core.loading import fetch as fetch_model

    typer.echo(str(fetch_model(model, on_progress=lambda line: typer.echo(line, err=True))))


@app.command()
def describe(
    model: Annotated[str, typer.Option("--model", "-m", help="As for generate.")] = "smollm2-135m",
    device: Annotated[str, typer.Option(help="As for generate.")] = "auto",
    dtype: Annotated[str, typer.Option(help="As for generate.")] = "auto",
    exactness: Annotated[str | None, typer.Option(help="As for generate.")] = None,
) -> None:
    """Say how a model would run here (device, dtype, geometry, exactness) and why.

    Example: specdec describe -m smollm2-135m
    """
    from specdec_core.engine import load_engine

    choice: dict[str, Any] = {"device": device, "dtype": dtype, "exactness": exactness}
    engine = load_engine(model, **choice)
    typer.echo(json.dumps(engine.describe().to_dict(), indent=2))


def main() -> None:
    """Run the command; errors of ours are a line on stderr, without a traceback, and exit 2."""
    try:
        app()
    except SpecDecError as error:
        typer.echo(f"specdec: {error}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


def _schema_text(given: str | None) -> str | None:
    """The JSON itself, or what the file of that name holds."""
    if given is None or given.lstrip().startswith("{"):
        return given
    try:
        return Path(given).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(f"--json-schema: {given!r} is no JSON object and no file to read: {error}") from None


def _request(
    text: str, raw: bool, sampling: dict[str, Any], references: list[typer.FileText], form: dict[str, Any]
) -> GenerationRequest:
    """Raises RequestError, naming the option, for a value out of range."""
    from pydantic import ValidationError

    from specdec_core.types import GenerationRequest

    prompt: dict[str, Any] = {"prompt": text} if raw else {"messages": ({"role": "user", "content": text},)}
    texts = tuple(file.read() for file in references)
    structured: Any = form if any(value is not None for value in form.values()) else None
    try:
        return GenerationRequest(**prompt, sampling=sampling, reference_texts=texts, structured=structured)
    except ValidationError as error:
        first = error.errors()[0]
        raise RequestError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def _run(engine: Engine, request: GenerationRequest, *, stats: bool, trace: bool, as_json: bool) -> None:
    def tell(round_: Round) -> None:
        if trace:
            typer.echo(_trace_line(engine, round_), err=True)

    show_text = not as_json and not trace  # a trace would tear the text apart: print it whole afterwards
    output = None
    for chunk in engine.stream(request, on_round=tell):
        if show_text:
            typer.echo(chunk.text, nl=False)
        output = chunk.output
    assert output is not None
    if as_json:
        typer.echo(json.dumps(output.to_dict(), indent=2))
    else:
        typer.echo("" if show_text else output.text)
    if stats:
        typer.echo(_stats_line(output), err=True)


def _trace_line(engine: Engine, round_: Round) -> str:
    def shown(token_ids: tuple[int, ...]) -> str:
        return repr(engine.model.tokenizer.decode(token_ids, skip_special_tokens=False))

    drafted, num_accepted = round_.draft.token_ids, round_.num_accepted
    accepted, refused = drafted[:num_accepted], drafted[num_accepted:]
    last = f"{round_.last} {shown(round_.token_ids[-1:])}" if round_.last else "end of text"
    counts = f"drafted {len(drafted):>2}  accepted {num_accepted:>2}"
    return f"{round_.draft.source:>8}  {counts} {shown(accepted)}  refused {shown(refused)}  {last}"


def _stats_line(output: GenerationOutput) -> str:
    stats = output.stats
    parts = [
        f"{stats.num_prompt_tokens} prompt tokens ({stats.num_cached_prompt_tokens} cached)",
        f"{stats.num_generated_tokens} generated ({output.finish_reason})",
        f"{stats.num_decode_passes} decode passes",
    ]
    if stats.acceptance_length is not None:
        parts.append(f"acceptance length {stats.acceptance_length:.2f}")
    if stats.acceptance_rate is not None:
        parts.append(f"acceptance rate {stats.acceptance_rate:.2f}")
    if stats.tokens_per_second is not None:
        parts.append(f"{stats.tokens_per_second:.1f} tokens/s")
    parts += _control_parts(stats)
    return " · ".join(
        [*parts, f"{output.fingerprint.exactness}, {output.fingerprint.dtype}, {output.fingerprint.device}"]
    )


def _control_parts(stats: DecodeStats) -> list[str]:
    """What the controller expected, what it and the drafters took, and who drafted."""
    parts = [
        f"{name} {counts.num_accepted_tokens}/{counts.num_draft_tokens} in {counts.num_drafts} drafts"
        for name, counts in stats.sources.items()
        if counts.num_drafts
    ]
    predicted, realised = stats.predicted_tokens_per_second, stats.decode_tokens_per_second
    if predicted is not None and realised is not None:
        parts.append(f"decoding {realised:.1f} tokens/s, predicted {predicted:.1f}")
    total_s = stats.prefill_time_s + stats.decode_time_s
    if total_s > 0:
        parts.append(f"drafting {stats.draft_time_s / total_s:.1%}, control {stats.control_time_s / total_s:.1%}")
    return parts


if __name__ == "__main__":
    main()
