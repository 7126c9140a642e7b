"""Options that several commands share, each said once: a group is a function whose parameters are options.

``takes`` gives a command the options of some groups; the command gets what each group makes of them. Annotations are
evaluated when a command is defined, so those here and of commands name nothing that is imported for checking only.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specdec_core.errors import RequestError

if TYPE_CHECKING:
    from specdec_core.engine import Engine
    from specdec_core.types import GenerationRequest

__all__ = ["drafting", "form", "loading", "make_engine", "make_request", "sampling", "takes"]

_DRAFTER = typer.Option(help="auto, suffix, ngram, model:<reference> or none (plain decoding).")
_LOGPROBS = typer.Option(min=0, help="Log probabilities, and so many likeliest tokens (in --json).")
_WIDTH = typer.Option(min=1, help="Rows of the widest pass; default by the hardware table.")
_CONTEXT_LENGTH = typer.Option(min=2, help="Tokens of prompt and text together that the cache holds.")
_DRAFT_TOKENS = typer.Option("--draft-tokens", "-k", min=0, help="Longest draft; default: what a pass can verify.")


def takes(*groups: Callable[..., Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The command with the options of ``groups`` after its own; it is called with ``name_of_group=group(options)``."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        options = {group: inspect.signature(group, eval_str=True).parameters for group in groups}
        names = {group.__name__ for group in groups}
        own = [
            parameter
            for parameter in inspect.signature(command, eval_str=True).parameters.values()
            if parameter.name not in names
        ]

        @wraps(command)
        def with_options(**values: Any) -> None:
            made = {
                group.__name__: group(**{name: values.pop(name) for name in parameters})
                for group, parameters in options.items()
            }
            command(**values, **made)

        shared = [parameter for parameters in options.values() for parameter in parameters.values()]
        everything = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*own, *shared)]
        del with_options.__wrapped__
        with_options.__signature__ = inspect.Signature(everything)  # type: ignore[attr-defined]
        with_options.__annotations__ = {each.name: each.annotation for each in everything}
        return with_options

    return decorate


def sampling(
    max_tokens: Annotated[int, typer.Option(min=0, help="Most tokens to write.")] = 256,
    temperature: Annotated[float, typer.Option(min=0, help="0 takes the most likely token.")] = 0.0,
    top_k: Annotated[int | None, typer.Option(min=1, help="Draw from the k most likely tokens.")] = None,
    top_p: Annotated[float, typer.Option(min=0, max=1, help="Draw from the most likely tokens of this mass.")] = 1.0,
    min_p: Annotated[float, typer.Option(min=0, max=1, help="Share of the likeliest that a token must have.")] = 0.0,
    repetition_penalty: Annotated[float, typer.Option(min=0, help="Above 1: tokens seen are less likely.")] = 1.0,
    presence_penalty: Annotated[float, typer.Option(help="-2 to 2, once for every token written.")] = 0.0,
    frequency_penalty: Annotated[float, typer.Option(help="-2 to 2, for each time a token was written.")] = 0.0,
    logit_bias: Annotated[list[str] | None, typer.Option(help="ID=VALUE, added to a logit; may be repeated.")] = None,
    bad_words: Annotated[list[str] | None, typer.Option(help="String not to write; may be repeated.")] = None,
    logprobs: Annotated[int | None, _LOGPROBS] = None,
    stop: Annotated[list[str] | None, typer.Option(help="String that ends the text; may be repeated.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the noise: same seed, same draws.")] = 0,
) -> dict[str, Any]:
    """Fields of SamplingParams, not checked yet."""
    fields = dict(locals())
    return fields | {
        "logit_bias": dict(_bias(text) for text in logit_bias or ()),
        "bad_words": tuple(bad_words or ()),
        "stop": tuple(stop or ()),
    }


def form(
    json_schema: Annotated[
        str | None, typer.Option(help="JSON Schema of the text: a file, or the JSON itself.")
    ] = None,
    regex: Annotated[str | None, typer.Option(help="Regular expression that the text must match.")] = None,
) -> dict[str, Any] | None:
    """Fields of StructuredOutput, not checked yet; None where the text is free."""
    if json_schema is None and regex is None:
        return None
    if json_schema is not None and regex is not None:
        raise RequestError("--json-schema and --regex both say what form the text has: keep one")
    return {"json_schema": _schema_text(json_schema), "regex": regex}


def loading(
    model: Annotated[str, typer.Option("--model", "-m", help="Embedded name, folder, GGUF file or hub id.")] = (
        "smollm2-135m"
    ),
    exactness: Annotated[str | None, typer.Option(help="bitwise or law; default by the hardware table.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda.")] = "auto",
    dtype: Annotated[str, typer.Option(help="auto, bfloat16, float32, float16, float64.")] = "auto",
    quantize: Annotated[str | None, typer.Option(help="int8 or int4 weights, where measured to be faster.")] = None,
    width: Annotated[int | None, _WIDTH] = None,
    context_length: Annotated[int | None, _CONTEXT_LENGTH] = None,
) -> dict[str, Any]:
    """Arguments of load_model, not checked yet."""
    arguments = dict(locals())
    return {"reference": arguments.pop("model"), **arguments}


def drafting(
    drafter: Annotated[str, _DRAFTER] = "auto",
    num_speculative_tokens: Annotated[int | None, _DRAFT_TOKENS] = None,
    verification: Annotated[str, typer.Option(help="match, or rejection (law only).")] = "match",
) -> dict[str, Any]:
    """What else load_engine takes, not checked yet."""
    return dict(locals())


def make_engine(loading: dict[str, Any], drafting: dict[str, Any]) -> Engine:
    """Load a model and put an engine around it: after the request is checked, for it takes seconds."""
    from specdec_core.engine import load_engine

    return load_engine(**loading, **drafting)


def make_request(
    text: str,
    raw: bool,
    fields: dict[str, Any],
    reference_texts: tuple[str, ...] = (),
    structured: Any = None,
) -> GenerationRequest:
    """A request for one user message (or a raw prompt). Raises RequestError, naming the option, for a wrong value."""
    from pydantic import ValidationError

    from specdec_core.types import GenerationRequest

    prompt: dict[str, Any] = {"prompt": text} if raw else {"messages": ({"role": "user", "content": text},)}
    try:
        return GenerationRequest(**prompt, sampling=fields, reference_texts=reference_texts, structured=structured)
    except ValidationError as error:
        first = error.errors()[0]
        said = first["msg"].removeprefix("Value error, ")
        raise RequestError(f"{_option_of(first['loc'])}: {said} (given: {str(first['input'])[:60]!r})") from None


def _option_of(place: tuple[int | str, ...]) -> str:
    """The option that filled a place of the request.

    >>> _option_of(("sampling", "bad_words", 0))
    '--bad-words'
    """
    name = next(str(each) for each in place if each not in ("sampling", "structured"))
    return "--" + name.replace("_", "-")


def _bias(text: str) -> tuple[int, float]:
    token_id, _, value = text.partition("=")
    try:
        return int(token_id), float(value)
    except ValueError:
        raise RequestError(f"--logit-bias: {text!r} is not ID=VALUE, as in 42=-5 (a token id and a number)") from None


def _schema_text(given: str | None) -> str | None:
    """The JSON itself, or what the file of that name holds."""
    if given is None or given.lstrip().startswith("{"):
        return given
    try:
        return Path(given).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(f"--json-schema: {given!r} is no JSON object and no file to read: {error}") from None
