"""Text <-> token ids, thin enough that only loading and this file know transformers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from specdec_core.errors import ModelLoadError, RequestError, VocabularyMismatchError

__all__ = ["Tokenizer", "TransformersTokenizer"]


@runtime_checkable
class Tokenizer(Protocol):
    """What the engine needs of a tokenizer. Ids go one way: text that came out is never encoded again."""

    @property
    def vocab_size(self) -> int:
        """Ids the tokenizer knows; the model's embedding may have more rows (padding)."""
        ...

    @property
    def eos_token_ids(self) -> frozenset[int]:
        """Every id that ends a generation."""
        ...

    def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        """Ids of ``text``; on request after the beginning-of-sequence token, where the tokenizer has the habit."""
        ...

    def encode_chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """Ids of a conversation up to where the assistant speaks. Raises RequestError without a chat template."""
        ...

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """Text of ``token_ids``, spaces as they are. Incomplete UTF-8 shows as U+FFFD."""
        ...

    def token_text(self, token_id: int) -> str:
        """The piece behind one id as the vocabulary spells it. Raises VocabularyMismatchError for unknown ids."""
        ...


class TransformersTokenizer:
    """A :class:`Tokenizer` over a folder that transformers can read.

    Raises:
        ModelLoadError: the folder holds no tokenizer.
    """

    def __init__(self, folder: Path) -> None:
        from transformers import AutoTokenizer

        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        except Exception as error:  # transformers raises many kinds here; all mean the same to the caller
            raise ModelLoadError(f"{folder} holds no usable tokenizer: {error}") from error
        self._vocab_size = len(self._tokenizer)
        if self._vocab_size <= len(self._tokenizer.all_special_ids):  # made up, for some kinds, where there is no file
            raise ModelLoadError(f"{folder} holds no usable tokenizer: put its files there, tokenizer.json for example")
        self._eos_token_ids = _eos_token_ids(folder, self._tokenizer)

    @property
    def vocab_size(self) -> int:
        """Ids the tokenizer knows, added tokens included."""
        return self._vocab_size

    @property
    def eos_token_ids(self) -> frozenset[int]:
        """Those of generation config, config and tokenizer together."""
        return self._eos_token_ids

    def encode(self, text: str, *, add_special_tokens: bool = False) -> list[int]:
        """Ids of ``text``; on request with the special tokens the tokenizer puts around a text."""
        try:
            text.encode()
        except UnicodeEncodeError as error:  # such strings come out of JSON's "\\ud83d" and of wrongly decoded files
            raise RequestError(f"the text is not valid Unicode: {error}") from error
        return list(self._tokenizer.encode(text, add_special_tokens=add_special_tokens))

    def encode_chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """Ids of a conversation with the generation prompt. Raises RequestError without a chat template."""
        if not self._tokenizer.chat_template:
            raise RequestError("this model has no chat template: pass a prompt instead of messages")
        from jinja2 import TemplateError

        try:
            text: str = self._tokenizer.apply_chat_template(
                [dict(message) for message in messages], add_generation_prompt=True, tokenize=False
            )
        except (TemplateError, ValueError) as error:  # transformers' own refusals, of no messages at all, too
            raise RequestError(f"the chat template refuses these messages: {error}") from error
        return self.encode(text)

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """Text of ``token_ids``, spaces as they are."""
        text: str = self._tokenizer.decode(
            list(token_ids), skip_special_tokens=skip_special_tokens, clean_up_tokenization_spaces=False
        )
        return text

    def token_text(self, token_id: int) -> str:
        """The piece behind one id as the vocabulary spells it (byte-level pieces stay in their alphabet)."""
        piece: str | None = None
        if 0 <= token_id < self._vocab_size:
            piece = self._tokenizer.convert_ids_to_tokens(token_id)
        if piece is None:
            raise VocabularyMismatchError(f"token id {token_id!r} is outside the tokenizer's {self._vocab_size} ids")
        return piece

    def fast_tokenizer_json(self) -> str:
        """The tokenizer as the tokenizers library serialises it, added tokens included. Raises RequestError if slow."""
        if not self._tokenizer.is_fast:
            raise RequestError("this model's tokenizer has no fast form, which structured output needs")
        from copy import copy

        backend = copy(self._tokenizer.backend_tokenizer)
        backend.no_padding()
        backend.no_truncation()
        text: str = backend.to_str()
        return text


def _eos_token_ids(folder: Path, tokenizer: Any) -> frozenset[int]:
    found: set[int] = set() if tokenizer.eos_token_id is None else {int(tokenizer.eos_token_id)}
    for name in ("generation_config.json", "config.json"):
        path = folder / name
        if path.is_file():
            value = json.loads(path.read_text(encoding="utf-8")).get("eos_token_id")
            found.update([] if value is None else value if isinstance(value, list) else [value])
    return frozenset(found)
