"""A tokenizer for the tiny model that grammars can use: byte-level BPE, 90 ids for the model's 97."""

from __future__ import annotations

import json
import string

from tests.specdec_core.tiny_models import TinyTokenizer

__all__ = ["NUM_PADDED", "SPELLED", "GrammarTinyTokenizer"]

_MERGES = ['{ "', '" :', '" ,', '" }', "n a", "m e", "r e", "t r", "u e", "1 2"]
_MERGES += ["na me", "re d", "tr ue", '": Ġ', '", Ġ']  # of merged parts, so after them
_CHARACTERS = string.ascii_lowercase + string.digits + '{}[]":,.-+\\_Ġ'
_PRODUCTS = sorted({merge.replace(" ", "") for merge in _MERGES}, key=lambda piece: (len(piece), piece))
_FILLING = [char for char in string.ascii_uppercase if char not in _CHARACTERS]
SPELLED = ["<end>", "<sep>", *_CHARACTERS, *_PRODUCTS, *_FILLING][:90]
NUM_PADDED = 97 - len(SPELLED)


class GrammarTinyTokenizer(TinyTokenizer):
    """Letters, digits and JSON's marks, with some merges, so that most texts have several spellings."""

    vocab_size = len(SPELLED)

    def decode(self, token_ids, *, skip_special_tokens: bool = True) -> str:
        return "".join(SPELLED[i] for i in token_ids if 1 < i < len(SPELLED)).replace("Ġ", "\x20")

    def token_text(self, token_id: int) -> str:
        return SPELLED[token_id]

    def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        if text in SPELLED[:2]:
            return [SPELLED.index(text)]
        return [SPELLED.index("Ġ" if char == "\x20" else char) for char in text]

    def fast_tokenizer_json(self) -> str:
        added = [
            {"id": i, "content": SPELLED[i], "special": True}
            | dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
            for i in range(2)
        ]
        level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
        model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None}
        model |= {"end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False}
        model |= {"vocab": {piece: i for i, piece in enumerate(SPELLED)}, "merges": _MERGES}
        parts = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None}
        return json.dumps(parts | {"pre_tokenizer": level, "post_processor": None, "decoder": level, "model": model})
