"""The arms of the bench of decoding, on tiny models and, thinly, on the embedded one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

from evals.bench.decode_arms import Prompt, arms_for, build_arms, specdec_arm, timed_passes, transformers_arm
from evals.bench.decode_data import WorkItem
from evals.bench.decode_options import ASSISTED, BITWISE_ARMS, CORE_ARMS, GREEDY, PLAIN_1, WITHOUT_REFERENCES
from specdec_core.controller import FixedLength
from specdec_core.engine import Engine
from tests.specdec_core.tiny_models import make_tiny_engine

PROMPT = Prompt((5, 6, 7, 5, 6, 7, 5, 6, 7, 5, 6), 24, ())


@pytest.fixture(scope="module")
def baseline() -> Any:
    torch.manual_seed(0)
    sizes = {"vocab_size": 97, "hidden_size": 32, "intermediate_size": 48, "max_position_embeddings": 512}
    config = LlamaConfig(num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, **sizes)
    model = LlamaForCausalLM(config).double().eval()
    model.generation_config = GenerationConfig()
    return model


@pytest.mark.usefixtures("one_thread")
def test_passes_and_tokens_of_transformers_are_counted(baseline: Any) -> None:
    greedy = transformers_arm(baseline, frozenset({0}))(PROMPT)
    assert (len(greedy.token_ids), greedy.num_passes, greedy.num_prefill_tokens) == (24, 23, 1)
    assert 0 < greedy.prefill_time_s < greedy.time_s
    lookup = transformers_arm(baseline, frozenset({0}), prompt_lookup_num_tokens=5)(PROMPT)
    assisted = transformers_arm(baseline, frozenset({0}), assistant=baseline)(PROMPT)
    assert lookup.token_ids == assisted.token_ids == greedy.token_ids
    assert lookup.num_passes < greedy.num_passes
    assert "forward" not in vars(baseline)


@pytest.mark.usefixtures("one_thread")
def test_one_pass_may_yield_a_whole_text(baseline: Any) -> None:
    short = transformers_arm(baseline, frozenset({0}))(Prompt(PROMPT.token_ids, 1, ()))
    assert (len(short.token_ids), short.num_passes, short.num_prefill_tokens) == (1, 0, 1)


def test_the_model_is_itself_again_after_an_error(baseline: Any) -> None:
    with pytest.raises(KeyError), timed_passes(baseline):
        raise KeyError
    assert "forward" not in vars(baseline)


@pytest.mark.usefixtures("one_thread")
def test_our_arms_tell_what_the_engine_counts() -> None:
    plain = specdec_arm(make_tiny_engine("none"))(PROMPT)
    assert (plain.num_draft_tokens, plain.num_passes, plain.num_prefill_tokens) == (0, len(plain.token_ids) - 1, 1)
    text = "".join(chr(token_id + 30) for token_id in plain.token_ids)
    referring = Prompt(PROMPT.token_ids, 24, (text,))
    engine = Engine(make_tiny_engine().model, policy=FixedLength())
    informed, uninformed = (specdec_arm(engine, with_references=given)(referring) for given in (True, False))
    assert informed.token_ids == uninformed.token_ids == plain.token_ids
    assert informed.num_passes < uninformed.num_passes
    assert informed.num_accepted_tokens and informed.time_s > informed.prefill_time_s > 0


def test_which_arms_a_prompt_meets() -> None:
    names = [GREEDY, ASSISTED, PLAIN_1, *BITWISE_ARMS]
    spec = WorkItem("spec-bench/1", "spec-bench", "qa", (), 8)
    assert arms_for(spec, names, all_arms=False) == list(CORE_ARMS)
    assert arms_for(spec, names, all_arms=True) == names[:-1]
    retry = WorkItem("retries/1", "retries", "feedback", (), 8, ("text",))
    assert arms_for(retry, names, all_arms=True) == names
    assert arms_for(retry, names, all_arms=False) == [name for name in names if name != PLAIN_1]
    cold = WorkItem("humaneval/1", "humaneval", "humaneval", (), 8)
    assert arms_for(cold, names, all_arms=False) == names[:-1]
    assert names[-1] == WITHOUT_REFERENCES


@pytest.mark.slow  # loads the model four times
@pytest.mark.filterwarnings("default")  # transformers warns of its own calls
def test_every_arm_runs_on_the_embedded_model(embedded_folder: Path) -> None:
    arms = build_arms(str(embedded_folder), str(embedded_folder))
    prompt = Prompt(tuple(arms.tokenizer.encode_chat([{"role": "user", "content": "Name three fruits."}])), 2, ("a",))
    found = {name: arm(prompt) for name, arm in arms.by_name.items()}
    assert {len(measured.token_ids) for measured in found.values()} == {2}
    assert len({tuple(found[name].token_ids) for name in BITWISE_ARMS}) == 1
    assert len(found) == 9
