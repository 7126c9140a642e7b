"""Options that several commands share, each said once: a group is a function whose parameters are options.

``takes`` gives a command the options of some groups; the command gets what each group makes of them. Annotations are
evaluated when a command is defined, so those here and of commands name nothing that is imported for checking only.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specdec_core.errors import RequestError

if TYPE_CHECKING:
    from specdec_core.types import GenerationRequest

__all__ = ["engine", "make_request", "sampling", "takes"]

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
    max_tokens: Annotated[int, typer.Option(min=0)] = 256,
    temperature: Annotated[float, typer.Option(min=0, help="0 takes the most likely token.")] = 0.0,
    top_k: Annotated[int | None, typer.Option(min=1, help="Draw from the k most likely tokens.")] = None,
    top_p: Annotated[float, typer.Option(min=0, max=1, help="Draw from the most likely tokens of this mass.")] = 1.0,
    min_p: Annotated[float, typer.Option(min=0, max=1, help="Share of the likeliest that a token must have.")] = 0.0,
    repetition_penalty: Annotated[float, typer.Option(min=0, help="Above 1: tokens seen are less likely.")] = 1.0,
    presence_penalty: Annotated[float, typer.Option(help="-2 to 2, once for every token written.")] = 0.0,
    frequency_penalty: Annotated[float, typer.Option(help="-2 to 2, for each time a token was written.")] = 0.0,
    logit_bias: Annotated[list[str] | None, typer.Option(help="ID=VALUE, added to a logit; may be repeated.")] = None,
    bad_words: Annotated[list[str] | None, typer.Option(help="String not to write; may be repeated.")] = None,
    logprobs: Annotated[int | None, typer.Option(min=0, help="Log probabilities and so many likeliest tokens.")] = None,
    stop: Annotated[list[str] | None, typer.Option(help="String that ends the text; may be repeated.")] = None,
    seed: Annotated[int, typer.Option(min=0)] = 0,
) -> dict[str, Any]:
    """Fields of SamplingParams, not checked yet."""
    fields = dict(locals())
    pairs = [text.partition("=") for text in logit_bias or ()]
    return fields | {
        "logit_bias": {token_id: value for token_id, _, value in pairs},
        "bad_words": tuple(bad_words or ()),
        "stop": tuple(stop or ()),
    }


def engine(
    model: Annotated[str, typer.Option("--model", "-m", help="Embedded name, folder, GGUF file or hub id.")] = (
        "smollm2-135m"
    ),
    drafter: Annotated[str, typer.Option(help="auto, suffix, ngram or none (plain decoding).")] = "auto",
    num_speculative_tokens: Annotated[int | None, _DRAFT_TOKENS] = None,
    exactness: Annotated[str | None, typer.Option(help="bitwise or law; default by the hardware table.")] = None,
    verification: Annotated[str, typer.Option(help="match, or rejection (law only).")] = "match",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda.")] = "auto",
    dtype: Annotated[str, typer.Option(help="auto, bfloat16, float32, float16, float64.")] = "auto",
) -> Callable[[], Any]:
    """Loads the engine when called: a request is checked before a model is loaded."""
    choice: dict[str, Any] = dict(locals())
    del choice["model"]

    def load() -> Any:
        from specdec_core.engine import load_engine

        return load_engine(model, **choice)

    return load


def make_request(
    text: str, raw: bool, fields: dict[str, Any], reference_texts: tuple[str, ...] = ()
) -> GenerationRequest:
    """A request for one user message (or a raw prompt). Raises RequestError, naming the option, for a wrong value."""
    from pydantic import ValidationError

    from specdec_core.types import GenerationRequest

    prompt: dict[str, Any] = {"prompt": text} if raw else {"messages": ({"role": "user", "content": text},)}
    try:
        return GenerationRequest(**prompt, sampling=fields, reference_texts=reference_texts)
    except ValidationError as error:
        first = error.errors()[0]
        raise RequestError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
