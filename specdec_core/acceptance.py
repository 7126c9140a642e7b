"""How many draft tokens of a source will be accepted: learned per position, given that the position is reached.

E(n) = 1 + sum over i <= n of the product over j <= i of a_j, a_j the share of draft tokens at position j that were
accepted where all before them were (Leviathan et al. 2023, arXiv 2211.17192, without their assumption that a_j is the
same everywhere). Copied text is accepted the more likely the longer the match before it was and the further the copy
has got, so a_j is kept per strength of the draft and position, both in ranges that double.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["AcceptanceCurves", "num_matching"]

_NUM_RANGES = 6  # 1, 2, 3-4, 5-8, 9-16, 17 and more
_ANY_STRENGTH = _NUM_RANGES  # the row that counts drafts of every strength
_PRIOR_WEIGHT = 2.0
# By strength, then position: what copies of text of that match length reached in the cold answers of a 135M model to
# Spec-Bench (1,500 drafts from matches of one token, few from long ones: these were smoothed upwards).
_PRIORS = (
    (0.20, 0.45, 0.60, 0.70, 0.80, 0.90),
    (0.45, 0.50, 0.65, 0.75, 0.80, 0.85),
    (0.65, 0.60, 0.75, 0.80, 0.85, 0.90),
    (0.75, 0.80, 0.85, 0.90, 0.90, 0.95),
    (0.85, 0.90, 0.95, 0.95, 0.95, 0.95),
    (0.95, 0.95, 0.97, 0.97, 0.97, 0.97),
)
_UNKNOWN = 0.5  # for drafts that tell no strength


class AcceptanceCurves:
    """Acceptance of one source by strength and position, decayed: what is ``1 / (1 - decay)`` drafts old fades.

    Where little was seen a prior speaks, with the weight of two drafts: what such drafts did elsewhere, and what these
    did one range of positions earlier.

    >>> curves = AcceptanceCurves()
    >>> curves.expected_tokens(None, 2)
    [1.0, 1.5, 1.75]
    >>> for _ in range(50):
    ...     curves.learn(8, num_accepted=2, num_compared=3)
    >>> [round(tokens, 1) for tokens in curves.expected_tokens(8, 3)]
    [1.0, 2.0, 3.0, 3.0]
    """

    def __init__(self, decay: float = 0.97) -> None:
        self._decay = decay
        self._num_drafts = 0
        self._cells = [[_Share() for _ in range(_NUM_RANGES)] for _ in range(_NUM_RANGES + 1)]

    def expected_tokens(self, strength: int | None, num_draft_tokens: int) -> list[float]:
        """E(0) to E(num_draft_tokens): tokens that a pass emits with so many draft tokens of this strength."""
        shares = self._shares(strength)
        expected, reached = [1.0], 1.0
        for position in range(1, num_draft_tokens + 1):
            reached *= shares[_range(position)]
            expected.append(expected[-1] + reached)
        return expected

    def learn(self, strength: int | None, *, num_accepted: int, num_compared: int) -> None:
        """A draft was compared with the text at ``num_compared`` positions and agreed at the first ``num_accepted``."""
        self._num_drafts += 1
        for row in self._rows(strength):
            for position in range(1, min(num_accepted + 1, num_compared) + 1):
                cell = self._cells[row][_range(position)]
                cell.fade(self._decay, self._num_drafts)
                cell.count(position <= num_accepted)

    def fade(self, share: float) -> None:
        """Let everything learned count as ``share`` of what it did."""
        for row in self._cells:
            for cell in row:
                cell.accepted *= share
                cell.reached *= share

    def _shares(self, strength: int | None) -> list[float]:
        """Conditional acceptance per range of positions."""
        row = self._rows(strength)[-1]
        elsewhere = _PRIORS[row] if row < len(_PRIORS) else None
        shares: list[float] = []
        for index, cell in enumerate(self._cells[row]):
            hints = [*shares[-1:], *([elsewhere[index]] if elsewhere else [] if shares else [_UNKNOWN])]
            prior = sum(hints) / len(hints)
            fading = self._decay ** (self._num_drafts - cell.last)
            shares.append((cell.accepted * fading + _PRIOR_WEIGHT * prior) / (cell.reached * fading + _PRIOR_WEIGHT))
        return shares

    @staticmethod
    def _rows(strength: int | None) -> tuple[int, ...]:
        return (_ANY_STRENGTH,) if strength is None else (_ANY_STRENGTH, _range(max(strength, 1)))


class _Share:
    """Decayed counts."""

    __slots__ = ("accepted", "last", "reached")

    def __init__(self) -> None:
        self.accepted, self.reached, self.last = 0.0, 0.0, 0

    def fade(self, decay: float, now: int) -> None:
        fading = decay ** (now - self.last)
        self.accepted, self.reached, self.last = self.accepted * fading, self.reached * fading, now

    def count(self, accepted: bool) -> None:
        self.accepted += accepted
        self.reached += 1


def num_matching(draft_ids: Sequence[int], token_ids: Sequence[int]) -> int:
    """How many tokens agree before the first that does not.

    >>> num_matching([5, 6, 7], [5, 6, 8, 7])
    2
    """
    pairs = zip(draft_ids, token_ids, strict=False)
    return next(
        (index for index, (draft_id, token_id) in enumerate(pairs) if draft_id != token_id),
        min(len(draft_ids), len(token_ids)),
    )


def _range(number: int) -> int:
    """The range of a position or strength, from 1 on."""
    return min((number - 1).bit_length(), _NUM_RANGES - 1)
