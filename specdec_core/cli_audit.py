"""The command ``specdec audit``: is the speculative text the plain one?"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specdec_core import cli_options
from specdec_core.cli_options import make_engine, make_request, takes
from specdec_core.errors import RequestError

if TYPE_CHECKING:
    from specdec_core.audit import AuditReport

__all__ = ["audit"]

_FILE = typer.Option("--file", "-f", help="Prompts: a JSON string, or plain text, on each line.", encoding="utf-8")
_REFERENCE = typer.Option(help="File with text to draft from; may be repeated.", encoding="utf-8", errors="replace")


@takes(cli_options.sampling, cli_options.form, cli_options.loading, cli_options.drafting)
def audit(
    sampling: dict[str, Any],
    form: dict[str, Any] | None,
    loading: dict[str, Any],
    drafting: dict[str, Any],
    prompt: Annotated[list[str] | None, typer.Option("--prompt", "-p", help="A prompt; may be repeated.")] = None,
    file: Annotated[typer.FileText | None, _FILE] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Without a chat template.")] = False,
    reference: Annotated[list[typer.FileText] | None, _REFERENCE] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document instead of lines.")] = False,
) -> None:
    """Replay requests without drafts and compare: exit 0 where all texts are equal, 1 where one differs.

    Example: specdec audit -p "Name three fruits." --temperature 0.8 --exactness bitwise
    """
    prompts = [*(prompt or ()), *(_read_prompts(file.read()) if file else ())]
    if not prompts:
        raise RequestError("no prompt to audit: give --prompt or --file")
    references = tuple(each.read() for each in reference or ())
    requests = [make_request(text, raw, sampling, references, form) for text in prompts]
    from specdec_core.audit import audit as audit_one

    engine = make_engine(loading, drafting)
    reports = []
    for text, request in zip(prompts, requests, strict=True):
        reports.append(report := audit_one(engine, request))
        if not as_json:
            typer.echo(f"{_line(report)}  {text[:60]!r}")
    num_different = sum(not report.equal for report in reports)
    if as_json:
        texts = [{"prompt": text} | report.to_dict() for text, report in zip(prompts, reports, strict=True)]
        typer.echo(json.dumps({"num_texts": len(texts), "num_different": num_different, "texts": texts}, indent=2))
    else:
        typer.echo(f"{len(reports) - num_different} of {len(reports)} texts are equal", err=True)
    raise typer.Exit(1 if num_different else 0)


def _read_prompts(text: str) -> list[str]:
    """One prompt a line; a line that is a JSON string may hold line breaks; empty lines are left out."""
    prompts = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith('"'):
            try:
                prompts.append(str(json.loads(line)))
            except json.JSONDecodeError as error:
                raise RequestError(f"--file, line {number}: a line that begins with a quote is JSON: {error}") from None
        elif line.strip():
            prompts.append(line)
    return prompts


def _line(report: AuditReport) -> str:
    if (divergence := report.divergence) is None:
        return f"equal      {len(report.plain.token_ids):>5} tokens"
    margin = "" if divergence.margin is None else f", margin {divergence.margin:.3g}"
    lengths = f"{len(report.plain.token_ids)} tokens plainly, {len(report.speculative.token_ids)} with drafts"
    return (
        f"different  {lengths}; from token {divergence.index}: {divergence.plain_text!r} plainly, "
        f"{divergence.speculative_text!r} with drafts{margin}"
    )
