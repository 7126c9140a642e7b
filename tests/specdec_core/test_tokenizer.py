"""A tokenizer of the sentencepiece kind (Llama, Mistral): spaces in pieces, bytes, beginning of sequence."""

from __future__ import annotations

import json

import pytest

from specdec_core.errors import RequestError
from specdec_core.stopping import StopChecker
from specdec_core.tokenizer import TransformersTokenizer

PIECES = [
    "<unk>",
    "<s>",
    "</s>",
    *(f"<0x{byte:02X}>" for byte in range(256)),
    "\u2581",
    "\u2581Hello",
    "\u2581wor",
    "ld",
    ".",
]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> TransformersTokenizer:
    from tokenizers import Tokenizer, decoders, models, normalizers, processors

    folder = tmp_path_factory.mktemp("sentencepiece")
    vocab = {piece: token_id for token_id, piece in enumerate(PIECES)}
    letters = sorted(set("\u2581Helowrd") - vocab.keys())
    vocab |= {letter: len(PIECES) + place for place, letter in enumerate(letters)}
    words = ["\u2581Hello", "\u2581wor", "ld"]
    merges: list[tuple[str, str]] = []
    for word in words:
        for end in range(2, len(word) + 1):
            vocab.setdefault(word[:end], len(vocab))
            merges.append((word[: end - 1], word[end - 1]))
    backend = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    backend.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    backend.add_special_tokens(["<unk>", "<s>", "</s>"])
    backend.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    backend.save(str(folder / "tokenizer.json"))
    names = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(names))
    return TransformersTokenizer(folder)


def test_a_prompt_begins_with_the_beginning_of_sequence_and_a_reference_does_not(
    tokenizer: TransformersTokenizer,
) -> None:
    """Llama and Mistral answer badly without it."""
    plain = tokenizer.encode("Hello world.")
    assert tokenizer.decode(plain) == "Hello world."
    assert tokenizer.encode("Hello world.", add_special_tokens=True) == [1, *plain]


@pytest.mark.parametrize("text", ["Hello world.", "Hello \u20ac\U0001f642 world", " Hello  world", "\u65e5 Hello"])
def test_streamed_pieces_make_the_text(tokenizer: TransformersTokenizer, text: str) -> None:
    ids = [*tokenizer.encode(text), 2]
    checker, pieces = StopChecker(decode=tokenizer.decode, max_tokens=99, eos_token_ids=[2]), []
    for token_id in ids:
        checker.push(token_id)
        pieces.append(checker.take_text())
    assert "".join(pieces) == checker.text == tokenizer.decode(ids)
    assert not any("\ufffd" in piece for piece in pieces)


def test_special_tokens_and_padded_ids_leave_no_text(tokenizer: TransformersTokenizer) -> None:
    """An embedding may have more rows than the tokenizer has ids (Qwen2.5: 151936 and 151665)."""
    hello = tokenizer.encode("Hello")
    assert tokenizer.decode([1, *hello, 2, tokenizer.vocab_size + 5]) == "Hello"


@pytest.mark.parametrize("method", ["encode", "encode_chat"])
def test_half_a_surrogate_pair_is_a_wrong_request(tokenizer: TransformersTokenizer, method: str) -> None:
    r"""JSON's "\ud83d" makes one; the tokenizer's TypeError looked like a fault of ours."""
    tokenizer._tokenizer.chat_template = "{{ messages[0].content }}"
    with pytest.raises(RequestError, match="not valid Unicode"):
        tokenizer.encode("\ud83d") if method == "encode" else tokenizer.encode_chat([{"content": "\ud83d"}])
