"""Models of other families: their caches go on and back as a forward without a cache does, and no draft shows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from specdec_core.checkpoint import weight_files
from specdec_core.controller import FixedLength
from specdec_core.drafters import make_drafter
from specdec_core.engine import Engine, load_engine
from specdec_core.errors import (
    CacheRollbackError,
    ContextOverflowError,
    ExactnessError,
    ModelLoadError,
    RequestError,
    VocabularyMismatchError,
)
from specdec_core.loading import load_model
from specdec_core.models.base import TargetModel
from specdec_core.models.transformers import TransformersTarget, settle_target
from specdec_core.sampling import SamplingParams
from specdec_core.testing import AlternatingDrafter, AntiOracleDrafter, RandomDrafter, assert_lossless
from specdec_core.types import GenerationRequest
from tests.specdec_core.foreign_models import (
    FAMILIES,
    NUM_TOKENIZER_IDS,
    VOCAB_SIZE,
    WINDOW,
    make_model,
    save_folder,
)

WAYS_BACK = {
    "gpt2": "crop",
    "gpt_neox": "crop",
    "gemma": "crop",
    "gemma3_text": "crop",
    "mistral": "crop",
    "qwen3_moe": "crop",
    "lfm2": "crop",
    "mamba2": "restore",
    "falcon_h1": "restore",
    "mamba": "reread",
}
IDS = [3 + (7 * index * index) % 89 for index in range(60)]
DTYPES = [torch.float32, torch.bfloat16, torch.float16]
Make = Callable[..., TransformersTarget]


@pytest.fixture(scope="module")
def make_target() -> Make:
    """One float64 target per family; every test starts with a prefill."""
    made: dict[str, TransformersTarget] = {}

    def make(family: str) -> TransformersTarget:
        if family not in made:
            made[family] = settle_target(make_model(family), width=8, context_length=200)
        return made[family]

    return make


def fresh_logits(target: TransformersTarget, token_ids: list[int]) -> torch.Tensor:
    """The forward without a cache: what every way to get there must give."""
    with torch.inference_mode():
        return target.model(input_ids=torch.tensor([token_ids]), use_cache=False).logits[0]


def assert_close(got: torch.Tensor, expected: torch.Tensor) -> None:
    """Float64 weights, but some of these forwards compute in float32 inside; corruption is a million times larger."""
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize(("family", "way_back"), WAYS_BACK.items())
def test_the_way_back_follows_what_the_cache_can(make_target: Make, family: str, way_back: str) -> None:
    target = make_target(family)
    assert isinstance(target, TargetModel)
    assert target.way_back == way_back
    assert target.geometry.exactness == "law"
    assert target.geometry.width == (1 if way_back == "reread" else 8)


@pytest.mark.parametrize("family", WAYS_BACK)
def test_passes_and_rollbacks_end_where_a_fresh_forward_is(make_target: Make, family: str) -> None:
    """Refused drafts of every length, at places before, at and far behind the sliding window of eight tokens."""
    target = make_target(family)
    assert_close(target.prefill(IDS[:3]), fresh_logits(target, IDS[:3])[-1])
    expected = fresh_logits(target, IDS)
    length = 3
    for round_, wanted in enumerate([0, 1, 2, 0, 3, 5, 7, 0, 0, 6, 1, 4, 0, 2] * 2):
        num_right = min(wanted, target.geometry.max_draft_tokens)
        num_wrong = min((round_ * 3) % 8, target.geometry.max_draft_tokens - num_right)
        right = IDS[length : length + 1 + num_right]
        if len(right) <= num_right:
            break
        wrong = [(token_id + 1) % 97 for token_id in IDS[length : length + num_wrong]]
        rows = target.decode([*right, *wrong])
        assert_close(rows[: len(right)], expected[length : length + len(right)])
        length += len(right)
        target.rollback(length)
        assert target.cache_length == length
    assert length > 30


@pytest.mark.parametrize("family", WAYS_BACK)
def test_a_rollback_reaches_any_length(make_target: Make, family: str) -> None:
    """Before the last pass, into the prompt, to nothing, and twice in a row: slower perhaps, never wrong."""
    target = make_target(family)
    step = min(4, target.geometry.width)
    target.prefill(IDS[:20])
    for length in (22, 19, 12, 12, 5, 0, 0):
        while target.cache_length < 30:
            target.decode(IDS[target.cache_length :][:step])
        target.rollback(30)
        target.rollback(length)
        rows = target.decode(IDS[length : length + step])
        assert_close(rows, fresh_logits(target, IDS[: length + step])[-step:])
    for length in (-1, target.cache_length + 1):
        with pytest.raises(CacheRollbackError, match="cannot roll back"):
            target.rollback(length)


@pytest.mark.parametrize("family", WAYS_BACK)
def test_no_drafter_changes_the_text(make_target: Make, family: str) -> None:
    """Greedy over all kinds of drafters; that of a noisy race follows from the same logits and is tried on two."""
    target = make_target(family)
    drafters = [
        lambda answer: make_drafter("ngram"),
        lambda answer: make_drafter("suffix"),
        lambda answer: AntiOracleDrafter(answer, VOCAB_SIZE),
        lambda answer: AlternatingDrafter(answer, VOCAB_SIZE),
        lambda answer: RandomDrafter(VOCAB_SIZE, seed=len(answer)),
    ]
    sampling = SamplingParams(max_tokens=14, temperature=0.9 if family in ("gpt2", "mamba2") else 0.0, seed=5)
    assert assert_lossless(target, [IDS[:1], IDS[:4] * 3], drafters, sampling, draft_lengths=(7,)) == 10


@pytest.mark.parametrize("family", ["gpt2", "mistral", "falcon_h1"])
def test_long_prompts_are_read_in_chunks(make_target: Make, monkeypatch: pytest.MonkeyPatch, family: str) -> None:
    monkeypatch.setattr("specdec_core.models.transformers._PREFILL_CHUNK", 16)
    made = make_target(family)
    target = TransformersTarget(made.model, made.way_back, width=8, context_length=200)
    assert target.geometry.chunk == 16
    assert_close(target.prefill(IDS), fresh_logits(target, IDS)[-1])
    target.decode(IDS[:5])
    target.rollback(len(IDS))
    assert_close(target.decode(IDS[:2]), fresh_logits(target, [*IDS, *IDS[:2]])[-2:])


def test_a_pass_that_fails_leaves_the_target_usable(make_target: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    target = make_target("gpt2")
    target.prefill(IDS[:9])
    layer = target.model.transformer.h[1]

    def fail(*_: Any, **__: Any) -> None:
        raise MemoryError("one layer has read the tokens, the other has not")

    with monkeypatch.context() as patch:
        patch.setattr(layer, "forward", fail)
        with pytest.raises(MemoryError):
            target.decode(IDS[9:12])
    assert target.cache_length == 9
    assert_close(target.decode(IDS[9:12]), fresh_logits(target, IDS[:12])[-3:])


def test_wrong_requests_are_told(make_target: Make) -> None:
    target = make_target("gpt2")
    target.prefill(IDS[:4])
    with pytest.raises(RequestError, match="at least one token"):
        target.decode([])
    with pytest.raises(RequestError, match="at most 8 tokens"):
        target.decode(IDS[:9])
    with pytest.raises(VocabularyMismatchError, match="103"):
        target.decode([VOCAB_SIZE])
    with pytest.raises(ContextOverflowError, match="the context holds 200"):
        target.prefill([1] * 200)
    target.prefill([1] * 199)
    with pytest.raises(ContextOverflowError, match="exceed the context of 200"):
        target.decode([1, 1])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("family", ["gpt2", "gemma3_text", "qwen3_moe", "mamba2"])
def test_other_dtypes_stand_the_trial(family: str, dtype: torch.dtype) -> None:
    target = settle_target(make_model(family, dtype=dtype), width=8, context_length=200)
    assert target.way_back == WAYS_BACK[family]
    assert target.prefill(IDS[:9]).isfinite().all()


def test_a_model_without_a_known_cache_is_refused() -> None:
    with pytest.raises(ModelLoadError, match=r"RwkvForCausalLM keeps its state in nothing"):
        settle_target(make_model("rwkv", dtype=torch.float32), width=8, context_length=60)


def test_a_cache_that_lies_costs_the_drafts_and_not_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """A crop that removes one token too few, and a copy that is none: the trial falls to passes of one token."""
    from transformers.cache_utils import DynamicCache

    crop = DynamicCache.crop
    monkeypatch.setattr(DynamicCache, "crop", lambda self, count: crop(self, min(count + 1, 0)))
    assert settle_target(make_model("gpt2"), width=8, context_length=200).way_back == "restore"
    monkeypatch.setattr("specdec_core.models.transformers._copy_states", lambda cache: [vars(x) for x in cache.layers])
    monkeypatch.setattr("specdec_core.models.transformers._set_states", lambda cache, states: None)
    assert settle_target(make_model("gpt2"), width=8, context_length=200).way_back == "reread"


def test_logits_that_are_not_finite_are_told() -> None:
    model = make_model("gpt2", dtype=torch.float32)
    model.transformer.ln_f.weight.data[3] = torch.inf
    with pytest.raises(ModelLoadError, match=r"not finite in torch\.float32"):
        settle_target(model, width=8, context_length=200)


class TestFolders:
    """Through ``load_model``, as a user meets them."""

    @pytest.fixture(autouse=True)
    def cache(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SPECDEC_CACHE", str(tmp_path / "cache"))

    @pytest.mark.parametrize("family", ["gpt2", "mamba", "qwen3_moe", "mamba2"])
    def test_a_foreign_folder_loads_and_generates(self, tmp_path: Path, family: str) -> None:
        folder = save_folder(tmp_path / family, family)
        engine = load_engine(str(folder), dtype="float32", drafter="suffix")
        description = engine.describe()
        assert description.vocab_size == VOCAB_SIZE > engine.model.tokenizer.vocab_size == NUM_TOKENIZER_IDS
        assert description.fingerprint.exactness == "law"
        assert "+transformers-" in description.fingerprint.device
        assert "+packed" not in description.fingerprint.device
        assert any("forward of transformers" in reason for reason in description.reasons)
        assert not any(reason.startswith("exactness bitwise") for reason in description.reasons)
        request = GenerationRequest(prompt="abcabcabc", sampling={"max_tokens": 12, "temperature": 2.0, "seed": 1})
        plain = load_engine(str(folder), dtype="float32", drafter="none").generate(request)
        output = engine.generate(request)
        assert output.token_ids == plain.token_ids
        assert len(output.token_ids) == 12 or output.finish_reason != "length"

    @pytest.mark.parametrize("family", ["gpt2", "mamba"])
    @pytest.mark.parametrize("verification", ["match", "rejection"])
    def test_a_foreign_folder_drafts_too(self, tmp_path: Path, family: str, verification: Any) -> None:
        """The drafting model's config was read as one of the Llama family's, and any other refused."""
        folder = str(save_folder(tmp_path / family, family))
        target = str(save_folder(tmp_path / "target", "gpt2"))
        request = GenerationRequest(prompt="abcabcabc", sampling={"max_tokens": 24, "temperature": 0.3, "seed": 1})
        plain = load_engine(target, dtype="float32", drafter="none").generate(request)
        engine = load_engine(target, dtype="float32", drafter=f"model:{folder}", verification=verification)
        drafting = Engine(engine.model, drafter=engine.drafter, policy=FixedLength(), verification=verification)
        output = drafting.generate(request)  # whether drafting pays here is decided by the clock
        assert output.stats.num_draft_tokens > 0
        assert verification == "rejection" or output.token_ids == plain.token_ids
        if family == "gpt2":  # the same weights
            assert output.stats.num_accepted_tokens > 0

    def test_a_folder_without_a_tokenizer_is_refused(self, tmp_path: Path) -> None:
        """For GPT-2 transformers makes one up that knows nothing: every text was read as no tokens at all."""
        folder = save_folder(tmp_path / "mute", "gpt2")
        for path in folder.glob("tokenizer*"):
            path.unlink()
        with pytest.raises(ModelLoadError, match="no usable tokenizer"):
            load_model(folder, dtype="float32")

    def test_the_weights_hash_is_that_of_the_files(self, tmp_path: Path) -> None:
        from specdec_core.cache_dir import remembered_sha256

        folders = [save_folder(tmp_path / str(seed), "gpt2", seed=seed) for seed in (0, 1)]
        hashes = [load_model(folder, dtype="float32").fingerprint.weights_hash for folder in folders]
        assert hashes == [remembered_sha256(weight_files(folder)) for folder in folders]
        assert hashes[0] != hashes[1]

    def test_a_padded_id_can_be_drawn_and_read(self, tmp_path: Path) -> None:
        """The embedding has more rows than the tokenizer has ids: such an id is no text and no error."""
        model = load_model(save_folder(tmp_path / "padded", "gpt2"), dtype="float32")
        padded = VOCAB_SIZE - 1
        assert model.target.prefill([padded]).shape == (VOCAB_SIZE,)
        assert model.tokenizer.decode([padded]) == ""

    def test_bits_are_refused_with_the_reason(self, tmp_path: Path) -> None:
        folder = save_folder(tmp_path / "gpt2", "gpt2")
        with pytest.raises(ExactnessError, match="model type 'gpt2' is not supported"):
            load_model(folder, dtype="float32", exactness="bitwise")

    def test_a_mistral_keeps_our_forward_within_its_window_only(self, tmp_path: Path) -> None:
        folder = save_folder(tmp_path / "mistral", "mistral")
        inside = load_model(folder, dtype="float32")
        assert inside.target.context_length == WINDOW
        assert "+transformers-" not in inside.fingerprint.device
        beyond = load_model(folder, dtype="float32", context_length=64)
        assert beyond.target.context_length == 64
        assert "+transformers-" in beyond.fingerprint.device
        assert any("beyond its sliding window" in reason for reason in beyond.reasons)

    def test_a_rope_that_changes_with_the_length_ends_the_context(self, tmp_path: Path) -> None:
        """A refused draft across the change would turn the rows before it."""
        factors = [1.0 + index / 4 for index in range(4)]
        rope = {"rope_type": "longrope", "rope_theta": 1e4, "original_max_position_embeddings": 64}
        rope |= {"short_factor": factors, "long_factor": [4.0, 3.0, 2.0, 1.0]}
        folder = save_folder(tmp_path / "longrope", "gemma", rope_parameters=rope)
        model = load_model(folder, dtype="float32")
        assert model.target.context_length == 64
        assert any("rope changes with the length" in reason for reason in model.reasons)
        with pytest.raises(RequestError, match=r"within 2\.\.64"):
            load_model(folder, dtype="float32", context_length=65)

    def test_missing_tensors_are_not_made_up(self, tmp_path: Path) -> None:
        from safetensors.torch import load_file, save_file

        folder = save_folder(tmp_path / "torn", "gpt2")
        tensors = load_file(folder / "model.safetensors")
        del tensors["transformer.h.1.mlp.c_fc.weight"]
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        with pytest.raises(ModelLoadError, match=r"lack 1 tensors of GPT2LMHeadModel: transformer\.h\.1\.mlp\.c_fc"):
            load_model(folder, dtype="float32")

    def test_what_transformers_cannot_load_either_says_both(self, tmp_path: Path) -> None:
        folder = save_folder(tmp_path / "odd", "gpt2")
        (folder / "config.json").write_text('{"model_type": "perpetuum"}')
        with pytest.raises(ModelLoadError, match=r"'perpetuum' is not supported.*transformers cannot load"):
            load_model(folder, dtype="float32")


def test_every_family_is_met() -> None:
    assert set(WAYS_BACK) | {"rwkv"} == set(FAMILIES)
