from __future__ import annotations

import pytest

from specdec_core.drafters import DraftMemory, make_drafter
from specdec_core.errors import DrafterError
from specdec_core.metrics import DecodeStats
from specdec_core.replay import Recording, replay
from specdec_core.sampling import SamplingParams
from specdec_core.testing import AlternatingDrafter, generate_ids
from tests.specdec_core.tiny_models import make_tiny_llama

PROMPT = [7, 3, 9, 7, 3]


def counts(stats: DecodeStats) -> tuple[object, ...]:
    return (
        stats.num_generated_tokens,
        stats.num_decode_passes,
        stats.num_drafts,
        stats.num_draft_tokens,
        stats.num_accepted_tokens,
        stats.num_accepted_by_position,
    )


@pytest.mark.parametrize("name", ["suffix", "ngram", "none", "alternating"])
@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_a_replay_counts_what_the_generation_counted(name: str, temperature: float) -> None:
    target = make_tiny_llama()
    sampling = SamplingParams(temperature=temperature, seed=3, max_tokens=60)
    plain = generate_ids(target, PROMPT, sampling).generated_ids
    eos = plain[40]  # an end inside, where drafts reach beyond it
    drafter = AlternatingDrafter(plain, 97) if name == "alternating" else make_drafter(name)
    edited = [*plain[:10], 5, *plain[13:]]
    real = generate_ids(target, PROMPT, sampling, drafter, reference_ids=[edited], eos_token_ids=[eos])
    recording = Recording(tuple(PROMPT), tuple(real.generated_ids), (tuple(edited),), (eos,), max_new_tokens=60)
    report = replay(recording, drafter, max_draft_tokens=7, sampling=sampling)
    assert len(real.generated_ids) < 60
    assert counts(report.stats) == counts(real.stats)
    assert len(report.propose_times_s) == real.stats.num_decode_passes
    assert len(report.observe_times_s) == real.stats.num_decode_passes + 1


def test_a_memory_is_read_and_not_added_to() -> None:
    memory = DraftMemory()
    recording = Recording((1, 2, 3, 4), tuple(range(20, 50)))
    cold = replay(recording, make_drafter("suffix"), memory=memory)
    assert (cold.stats.acceptance_length, len(memory)) == (1.0, 0)
    memory.add((*recording.prompt_ids, *recording.output_ids))
    assert replay(recording, make_drafter("suffix"), memory=memory).stats.num_decode_passes == 2


def test_what_cannot_be_replayed_is_said() -> None:
    with pytest.raises(ValueError, match="at least one output token"):
        replay(Recording((1,), ()), make_drafter("none"))
    with pytest.raises(DrafterError, match="boom"):
        replay(Recording((1,), (2, 3, 4)), Failing([], 9))


class Failing(AlternatingDrafter):
    def propose(self, max_tokens: int) -> None:  # type: ignore[override]
        raise RuntimeError("boom")
