"""The command ``specdec generate``: a text, and where asked for its rounds and counts."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specdec_core.cli import options
from specdec_core.cli.options import Raw, References, make_engine, make_request, takes
from specdec_core.errors import RequestError

if TYPE_CHECKING:
    from specdec_core.engine import Engine
    from specdec_core.metrics import DecodeStats
    from specdec_core.types import GenerationOutput, GenerationRequest, Round

__all__ = ["generate"]

_TRACE = typer.Option("--trace", help="Print each round: drafted, accepted, recovered or bonus.")


@takes(options.sampling, options.form, options.loading, options.drafting)
def generate(
    sampling: dict[str, Any],
    form: dict[str, Any] | None,
    loading: dict[str, Any],
    drafting: dict[str, Any],
    prompt: Annotated[str, typer.Option("--prompt", "-p", help="The user's message; '-' reads standard input.")],
    raw: Raw = False,
    reference: References = None,
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
