"""When a text ends: end-of-sequence token, stop string, length. This is the one place that decides it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from specdec_core.types import FinishReason

__all__ = ["IncrementalDetokenizer", "StopChecker"]

_Decode = Callable[[Sequence[int]], str]

_REPLACEMENT = "\ufffd"


class IncrementalDetokenizer:
    """Text from tokens, released in whole characters.

    A token may hold a part of a character, so text is released only when the decoded tail does not end in U+FFFD. Each
    step decodes a short window with the previous piece before it, because tokenizers may treat a first token specially.
    """

    def __init__(self, decode: _Decode) -> None:
        self._decode = decode
        self._token_ids: list[int] = []
        self._window_start = 0  # first token of the decoded window
        self._released = 0  # tokens before this have been released as text

    def push(self, token_id: int) -> str:
        """The text that this token completes; empty while a character is incomplete."""
        self._token_ids.append(token_id)
        piece = self._pending()
        if not piece or piece.endswith(_REPLACEMENT):
            return ""
        self._window_start, self._released = self._released, len(self._token_ids)
        return piece

    def flush(self) -> str:
        """Whatever is left, an incomplete character as U+FFFD."""
        piece = self._pending()
        self._window_start = self._released = len(self._token_ids)
        return piece

    def _pending(self) -> str:
        before = self._decode(self._token_ids[self._window_start : self._released])
        return self._decode(self._token_ids[self._window_start :])[len(before) :]


class StopChecker:
    """Takes emitted tokens one at a time and says when the text is over.

    An end-of-sequence token is looked at first, then stop strings, then ``is_complete`` (whether a grammar lets nothing
    follow the tokens), then the length: a stop inside an accepted run ends the text there even when the length cap is
    reached in the same round. ``stop_tokens`` are stop strings that are special tokens (id -> string): decoding leaves
    these out, so the text alone would never show them.

    >>> checker = StopChecker(decode=lambda ids: "".join(map(chr, ids)), max_tokens=9, stop=["END"])
    >>> [checker.push(ord(c)) for c in "a ENDz"]
    [False, False, False, False, True, True]
    >>> checker.text, checker.finish_reason, checker.stop_string
    ('a ', 'stop', 'END')
    """

    def __init__(
        self,
        *,
        decode: _Decode,
        max_tokens: int,
        eos_token_ids: Collection[int] = (),
        stop: Sequence[str] = (),
        stop_tokens: Mapping[int, str] | None = None,
        is_complete: Callable[[Sequence[int]], bool] | None = None,
    ) -> None:
        self._detokenizer = IncrementalDetokenizer(decode)
        self._max_tokens = max_tokens
        self._eos_token_ids = frozenset(eos_token_ids)
        self._stop = tuple(text for text in stop if text)
        self._stop_tokens = dict(stop_tokens or {})
        self._is_complete = is_complete
        self._num_taken = 0  # characters handed out by take_text
        self.token_ids: list[int] = []
        self.text = ""
        self.stop_string: str | None = None
        self.finish_reason: FinishReason | None = "length" if max_tokens <= 0 else None

    @property
    def finished(self) -> bool:
        """Whether the text is over."""
        return self.finish_reason is not None

    def push(self, token_id: int) -> bool:
        """Take one token; True when the text is over. Tokens after the end are ignored."""
        if self.finished:
            return True
        self.token_ids.append(token_id)
        if token_id in self._eos_token_ids or token_id in self._stop_tokens:
            self._append(self._detokenizer.flush())
            self.stop_string = self.stop_string or self._stop_tokens.get(token_id)
            self.finish_reason = "stop"
            return True
        self._append(self._detokenizer.push(token_id))
        if self._is_complete is not None and self._is_complete(self.token_ids):
            self._append(self._detokenizer.flush())
            self.finish_reason = "stop"
        if len(self.token_ids) >= self._max_tokens:
            self._append(self._detokenizer.flush())
            self.finish_reason = self.finish_reason or "length"
        return self.finished

    def take_text(self) -> str:
        """The text not handed out yet, short of a tail that may be the beginning of a stop string."""
        end = len(self.text) if self.finished else len(self.text) - self._possible_stop_length()
        piece = self.text[self._num_taken : end]
        self._num_taken = max(self._num_taken, end)
        return piece

    def _append(self, piece: str) -> None:
        """Add text and look for the earliest stop string that it completes."""
        search_from = max(0, len(self.text) - max(map(len, self._stop), default=0) + 1)
        self.text += piece
        found = [(self.text.find(stop, search_from), stop) for stop in self._stop]
        position, stop = min((hit for hit in found if hit[0] >= 0), default=(-1, ""))
        if position >= 0:
            self.text, self.stop_string, self.finish_reason = self.text[:position], stop, "stop"

    def _possible_stop_length(self) -> int:
        """Length of the longest tail of the text that a stop string begins with."""
        lengths = range(min(max(map(len, self._stop), default=1) - 1, len(self.text)), 0, -1)
        return next((n for n in lengths if any(stop.startswith(self.text[-n:]) for stop in self._stop)), 0)
