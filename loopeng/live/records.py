"""The rows of one call, in memory until it is answered."""

from __future__ import annotations

from loopeng.errors import StoreError
from loopeng.live.reach import Reach
from loopeng.live.redaction import Redactor
from loopeng.schema import Attempt, SampleResult

__all__ = ["CallRecords"]


class CallRecords:
    """What the steps of an attempt take for the store. The rows of a call are written together, or not at all.

    Judges' replies are kept in the database as ever, as far as it can be reached and nothing in them is redacted.
    """

    def __init__(self, reach: Reach, redactor: Redactor) -> None:
        self.made: list[Attempt] = []
        self._reach, self._redactor = reach, redactor

    def attempts(self, run_id: str, sample_id: str, repeat: int, /) -> list[Attempt]:
        """What was made so far."""
        return list(self.made)

    def save_attempt(self, attempt: Attempt, /) -> bool:
        """True: nobody else works on this call."""
        self.made.append(attempt)
        return True

    def save_sample_result(self, result: SampleResult, /) -> bool:
        """It follows from the attempts."""
        return True

    def judge_reply(self, key: str) -> str | None:
        """None where there is none, or nobody can tell."""
        try:
            return self._reach.ask(lambda store: store.judge_reply(key))
        except StoreError:
            return None

    def save_judge_reply(self, key: str, text: str) -> bool:
        """Whether it was kept."""
        try:
            return self._redactor.text(text) == text and self._reach.ask(
                lambda store: store.save_judge_reply(key, text)
            )
        except StoreError:
            return False
