"""The arms of the bench: transformers' modes of generation and ours, all on the same ids, all in this process.

transformers runs as people use it: ``generate`` with its dynamic cache, greedy, and its own defaults for what is not
named here (prompt lookup matches two tokens; the assistant drafts up to twenty while it is sure). Its passes are
counted by wrapping the model's ``forward``. Its first pass counts as prefill even where it verifies a draft already;
the tokens that this pass yields are left out of decoding speed and acceptance length, as is the one of ours.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, GenerationConfig, logging

from evals.bench.decode_data import WorkItem
from evals.bench.decode_options import (
    ASSISTED,
    CORE_ARMS,
    GREEDY,
    LOOKUP_LENGTHS,
    PLAIN_1,
    PLAIN_W,
    SPECULATIVE,
    WITHOUT_REFERENCES,
)
from evals.bench.decode_rows import Measured
from specdec_core.engine import Engine
from specdec_core.loading import LoadedModel, fetch, load_model
from specdec_core.metrics import DecodeStats
from specdec_core.sampling import SamplingParams
from specdec_core.tokenizer import Tokenizer
from specdec_core.types import GenerationRequest


@dataclass(frozen=True)
class Prompt:
    """A work item as ids."""

    token_ids: tuple[int, ...]
    max_tokens: int
    reference_texts: tuple[str, ...]


Arm = Callable[[Prompt], Measured]


@dataclass(frozen=True)
class Arms:
    """All arms of one model, by name."""

    by_name: dict[str, Arm]
    tokenizer: Tokenizer
    model: LoadedModel

    def prompt(self, item: WorkItem) -> Prompt:
        return Prompt(tuple(self.tokenizer.encode_chat(item.messages)), item.max_tokens, item.reference_texts)


def build_arms(reference: str, assistant: str | None) -> Arms:
    """Load the model once for every way of running it.

    Args:
        reference: What ``load_model`` takes.
        assistant: The same for the assistant of assisted generation; None leaves that arm out.
    """
    logging.set_verbosity_error()  # assisted generation warns of how it calls itself
    logging.disable_progress_bar()
    bitwise = load_model(reference, exactness="bitwise")
    law = load_model(reference, exactness="law")
    baseline = _transformers_model(fetch(reference), bitwise.dtype)
    ends = bitwise.tokenizer.eos_token_ids
    arms: dict[str, Arm] = {GREEDY: transformers_arm(baseline, ends)}
    for number in LOOKUP_LENGTHS:
        arms[f"transformers-lookup-{number}"] = transformers_arm(baseline, ends, prompt_lookup_num_tokens=number)
    if assistant is not None:
        helper = _transformers_model(fetch(assistant), bitwise.dtype)
        arms[ASSISTED] = transformers_arm(baseline, ends, assistant=helper)
    arms[PLAIN_1] = specdec_arm(Engine(law, drafter="none"))
    arms[PLAIN_W] = specdec_arm(Engine(bitwise, drafter="none"))
    arms[SPECULATIVE] = specdec_arm(Engine(bitwise))
    arms[WITHOUT_REFERENCES] = specdec_arm(Engine(bitwise), with_references=False)
    return Arms(arms, bitwise.tokenizer, bitwise)


def arms_for(item: WorkItem, names: list[str], *, all_arms: bool) -> list[str]:
    """The arms that an item is measured with: without reference texts there is nothing to leave out.

    Unless all are asked for, Spec-Bench leaves out the slower modes of transformers, and plain passes of one row are
    compared with on cold prompts alone: on the longer parts greedy and plain-W say the same.
    """
    if not all_arms:
        left_out = {"spec-bench": set(names) - set(CORE_ARMS), "humaneval": set()}.get(item.part, {PLAIN_1})
        names = [name for name in names if name not in left_out]
    return [name for name in names if item.reference_texts or name != WITHOUT_REFERENCES]


def specdec_arm(engine: Engine, *, with_references: bool = True) -> Arm:
    """One of our engines, cold: what it remembers of other prompts is forgotten first."""

    def run(prompt: Prompt) -> Measured:
        engine.memory.clear()
        request = GenerationRequest(
            prompt_token_ids=prompt.token_ids,
            sampling=SamplingParams(max_tokens=prompt.max_tokens),
            reference_texts=prompt.reference_texts if with_references else (),
        )
        started = time.perf_counter()
        output = engine.generate(request)
        return _measured(list(output.token_ids), time.perf_counter() - started, output.stats)

    return run


def _measured(token_ids: list[int], time_s: float, stats: DecodeStats) -> Measured:
    """``time_s`` is the caller's clock, so encoding references and making the text count as well."""
    return Measured(
        token_ids=token_ids,
        time_s=time_s,
        prefill_time_s=stats.prefill_time_s,
        num_passes=stats.num_decode_passes,
        num_draft_tokens=stats.num_draft_tokens,
        num_accepted_tokens=stats.num_accepted_tokens,
        draft_time_s=stats.draft_time_s,
        control_time_s=stats.control_time_s,
        predicted_time_s=stats.predicted_time_s,
        predicted_tokens=stats.predicted_tokens,
    )


def transformers_arm(model: Any, eos_token_ids: frozenset[int], *, assistant: Any = None, **mode: Any) -> Arm:
    """``generate`` in one of its modes: ``mode`` goes into its generation config."""

    def run(prompt: Prompt) -> Measured:
        ids = torch.tensor([prompt.token_ids], device=model.device)
        config = GenerationConfig(
            do_sample=False,
            max_new_tokens=prompt.max_tokens,
            eos_token_id=sorted(eos_token_ids),
            pad_token_id=0,
            **mode,
        )
        helped = {} if assistant is None else {"assistant_model": assistant}
        with torch.inference_mode(), timed_passes(model) as passes:
            started = time.perf_counter()
            output = model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=config, **helped)
            time_s = time.perf_counter() - started
        new_ids = output[0, ids.shape[1] :].tolist()
        # the last token that a pass yields is read by the next one
        num_read = passes[1].start if len(passes) > 1 else output.shape[1] - 1
        return Measured(
            token_ids=new_ids,
            time_s=time_s,
            prefill_time_s=passes[0].time_s,
            num_passes=len(passes) - 1,
            num_prefill_tokens=num_read - ids.shape[1] + 1,
        )

    return run


@dataclass(frozen=True)
class Pass:
    """One pass of a transformers model."""

    time_s: float
    start: int  # position of its first row


@contextmanager
def timed_passes(model: Any) -> Iterator[list[Pass]]:
    """Every pass of the model, in order."""
    passes: list[Pass] = []
    forward = model.forward

    @functools.wraps(forward)  # generate reads the signature
    def timed(*args: Any, **kwargs: Any) -> Any:
        started = time.perf_counter()
        result = forward(*args, **kwargs)
        passes.append(Pass(time.perf_counter() - started, int(kwargs["position_ids"][0, 0])))
        return result

    model.forward = timed
    try:
        yield passes
    finally:
        del model.forward  # the class's own shows again


def _transformers_model(folder: Path, dtype: torch.dtype) -> Any:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()
    model.generation_config = GenerationConfig()  # the folder's sampling settings would warn under greedy
    return model
