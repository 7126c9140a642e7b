"""The command ``specdec``: generate text, look at rounds, audit texts, measure passes, fetch models."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specdec_core import cli_options
from specdec_core.cli_audit import audit
from specdec_core.cli_options import make_engine, make_request, takes
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

_REFERENCE = typer.Option(help="File with text to draft from; may be repeated.", encoding="utf-8", errors="replace")
_TRACE = typer.Option("--trace", help="Print each round: drafted, accepted, recovered or bonus.")


@app.callback()
def root() -> None:
    """Group of commands."""


app.command()(audit)
app.command()(profile)


@app.command()
@takes(cli_options.sampling, cli_options.form, cli_options.loading, cli_options.drafting)
def generate(
    sampling: dict[str, Any],
    form: dict[str, Any] | None,
    loading: dict[str, Any],
    drafting: dict[str, Any],
    prompt: Annotated[str, typer.Option("--prompt", "-p", help="The user's message; '-' reads standard input.")],
    raw: Annotated[
        bool, typer.Option("--raw", help="Complete the prompt as it stands, without a chat template.")
    ] = False,
    reference: Annotated[list[typer.FileText] | None, _REFERENCE] = None,
    stats: Annotated[bool, typer.Option("--stats", help="Counts and rates after the text (stderr).")] = False,
    trace: Annotated[bool, _TRACE] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document: text, counts, numerics.")] = False,
) -> None:
    """Generate text.

    Example: specdec generate -p "Name three fruits." --max-tokens 40 --stats
    """
    if sampling["logprobs"] is not None and not as_json:
        raise RequestError("--logprobs are told in the JSON document: add --json")
    text = sys.stdin.read() if prompt == "-" else prompt
    request = make_request(text, raw, sampling, tuple(file.read() for file in reference or ()), form)
    _run(make_engine(loading, drafting), request, stats=stats, trace=trace, as_json=as_json)


@app.command()
def fetch(model: Annotated[str, typer.Argument(help="Embedded name, GGUF file or hub id.")] = "smollm2-135m") -> None:
    """Download and convert a model into the cache, once. Prints its folder.

    Example: specdec fetch smollm2-135m
    """
    from specdec_core.loading import fetch as fetch_model

    typer.echo(str(fetch_model(model, on_progress=lambda line: typer.echo(line, err=True))))


@app.command()
@takes(cli_options.loading, cli_options.drafting)
def describe(loading: dict[str, Any], drafting: dict[str, Any]) -> None:
    """Say how a model would run here (device, dtype, geometry, exactness) and why.

    Example: specdec describe -m smollm2-135m
    """
    typer.echo(json.dumps(make_engine(loading, drafting).describe().to_dict(), indent=2))


def main() -> None:
    """Run the command; errors of ours are a line on stderr, without a traceback, and exit 2; the system's, exit 1."""
    try:
        app()
    except SpecDecError as error:
        typer.echo(f"specdec: {error}", err=True)
        sys.exit(2)
    except OSError as error:  # a full disk, a folder without rights
        typer.echo(f"specdec: {error}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


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
