"""The policy that makes tokens per second as many as it can.

A decode pass with n draft tokens emits E(n) tokens on average and takes T(n). Over many rounds sum E / sum T is most
when each round maximises E(n) - g T(n), g being the rate that is reached (Dinkelbach 1967; the greatest E / T of each
round does not give the greatest ratio of the sums). T is counted in plain passes, so that the speed of the machine,
which changes from minute to minute, decides nothing. n = 0 is plain decoding, in the narrowest pass of the geometry.

Sources that cost nearly nothing, which is to say text, are asked first and their drafts are looked at. Whatever they
proposed is compared with what the text became, also where it was not verified: a source whose drafts do not pay is
followed without a pass spent on it. A source that costs (a model) is not looked at: how many tokens to ask for is
settled before, its draft is verified whole, and where it does not pay it is tried again after 8 rounds, 16, 32 and so
on, 256 at most, until a trial pays. In the same spirit, after 64 plain passes the next is a wide one, if it can
be, and after 64 wide ones a plain one: nothing else tells what one costs beside the other by now.

What is learned stays from request to request: the costs of passes, and the acceptance and cost of each source. It is
decayed, and a new request halves the weight of acceptance learned before. In match mode with bitwise exactness no
decision can change the text. In law exactness widths may decide near ties, which is what law means. In rejection mode
the law stays exact because no decision to verify a drawn token depends on tokens drawn with it, and no draft is drawn
with the noise of an earlier one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from specdec_core.acceptance import AcceptanceCurves
from specdec_core.controller import Plan, Source, first_tokens
from specdec_core.pass_costs import PassCosts, RunningMean
from specdec_core.sequences import common_length
from specdec_core.types import Draft

__all__ = ["BackOff", "Goodput"]

_NEARLY_FREE = 0.02  # of a plain pass, for a draft as long as allowed
_LEAST_COST = 1e-5  # of a plain pass, for a token: where the clock is too coarse
_FIRST_DRAFT = 3  # tokens asked of a source whose cost is not known
_RATE_DECAY = 0.95  # per pass
_NEW_REQUEST = 0.5  # weight that what earlier requests taught keeps
_FIRST_WAIT, _LONGEST_WAIT = 8, 256  # rounds


class BackOff:
    """When to try again what did not pay: after 8 rounds, then 16, 32 and so on.

    >>> backoff = BackOff()
    >>> [number for number in range(1, 9) if backoff.due()]
    [8]
    """

    def __init__(self) -> None:
        self.wait, self._num_skipped = _FIRST_WAIT, 0

    def due(self) -> bool:
        """One more round without; whether it is time for a trial."""
        self._num_skipped += 1
        return self._num_skipped >= self.wait

    def tell(self, paid: bool) -> None:
        """How a trial went. One that paid is repeated at once."""
        self.wait = _FIRST_WAIT if paid else min(2 * self.wait, _LONGEST_WAIT)
        self._num_skipped = self.wait if paid else 0

    def reset(self) -> None:
        """It pays again."""
        self.wait, self._num_skipped = _FIRST_WAIT, 0


@dataclass(slots=True)
class _Record:
    """What is known of a source. ``cost`` is that of one draft token in plain passes."""

    acceptance: AcceptanceCurves = field(default_factory=AcceptanceCurves)
    cost: RunningMean = field(default_factory=RunningMean)
    backoff: BackOff = field(default_factory=BackOff)


@dataclass(frozen=True, slots=True)
class _Option:
    """One thing to do: verify ``draft``, or ask ``source`` for ``length`` tokens.

    ``value`` is E - g T, ``passes`` T in plain passes; ``stale``: a pass of another width is due.
    """

    value: float
    length: int
    expected_tokens: float
    passes: float
    stale: bool = False
    source: Source | None = None
    draft: Draft = field(default_factory=Draft)

    def rank(self) -> tuple[bool, float]:
        return not self.stale, self.value


class Goodput:
    """Chooses the draft with the greatest E(n) - g T(n). See the module's text."""

    def __init__(self, costs: PassCosts) -> None:
        self.costs = costs
        self._records: dict[Source, _Record] = {}
        self._tokens, self._passes = 0.0, 0.0  # decayed sums
        self._chosen = _Option(0.0, 0, 1.0, 1.0)
        self._seen: list[tuple[Source, Draft]] = []  # this round's drafts, uncut
        self._trial: float | None = None  # what else could be had, where the chosen draft is not expected to pay

    @property
    def rate(self) -> float:
        """g: tokens per time of a plain pass, reached lately. Plain decoding always reaches 1."""
        return max(1.0, self._tokens / self._passes) if self._passes else 1.0

    def begin(self, sources: Sequence[Source]) -> None:
        """A new request: what was learned of acceptance counts half."""
        self.costs.begin()
        self._records = {source: self._records.get(source, _Record()) for source in sources}
        self._tokens, self._passes = self._tokens * _NEW_REQUEST, self._passes * _NEW_REQUEST
        for record in self._records.values():
            record.acceptance.fade(_NEW_REQUEST)

    def choose(self, sources: Sequence[Source], limit: int) -> Plan:
        """Look at what is nearly free, then ask the source that costs, if it promises more."""
        self._seen, self._trial = [], None
        plain = self._option([1.0], 0)
        self._chosen = self._best(sources, limit, plain) if limit > 0 and self.costs.known else plain
        option = self._chosen
        seconds = option.passes * self.costs.plain_seconds
        return Plan(option.draft, option.source, option.expected_tokens if seconds else 0.0, seconds)

    def learn(self, token_ids: Sequence[int], pass_time_s: float) -> None:
        """Costs, rate, and the acceptance of every draft that was seen."""
        chosen = self._chosen
        self.costs.observe(1 + len(chosen.draft.token_ids), pass_time_s)
        self._tokens = self._tokens * _RATE_DECAY + len(token_ids)
        self._passes = self._passes * _RATE_DECAY + chosen.passes
        for source, draft in self._seen:
            if num_compared := min(len(draft.token_ids), len(token_ids)):
                num_accepted = common_length(draft.token_ids, token_ids)
                curves = self._records[source].acceptance
                curves.learn(draft.match_length, num_accepted=num_accepted, num_compared=num_compared)
        if self._trial is not None and chosen.source is not None:
            paid = len(token_ids) - self.rate * chosen.passes >= self._trial
            self._records[chosen.source].backoff.tell(paid)

    def _best(self, sources: Sequence[Source], limit: int, best: _Option) -> _Option:
        costly: list[_Option] = []
        for source in sources:
            cost = self._records[source].cost.value
            if cost is not None and cost * limit > _NEARLY_FREE:
                costly.append(self._forecast(source, limit, cost))
                continue
            draft = self._ask(source, limit if cost is not None else min(limit, _FIRST_DRAFT))
            if draft.probs is not None and draft.token_ids:
                return self._whole(source, draft, cost or 0.0)
            best = max(best, self._best_cut(source, draft), key=_Option.rank)
        varied = self.costs.due and not best.stale
        return best if varied else self._best_costly(costly, best)

    def _best_costly(self, forecasts: list[_Option], best: _Option) -> _Option:
        """The draft of the source that promises most, or that is due for a trial; else ``best``."""
        for forecast in sorted(forecasts, key=lambda option: -option.value):
            source = forecast.source
            assert source is not None
            record = self._records[source]
            pays = forecast.value > best.value
            if pays:
                record.backoff.reset()
            elif not record.backoff.due():
                continue
            draft = self._ask(source, forecast.length)
            if draft.token_ids:
                self._trial = None if pays else best.value
                return self._whole(source, draft, record.cost.value or 0.0)
            record.acceptance.learn(None, num_accepted=0, num_compared=1)  # asked in vain
        return best

    def _ask(self, source: Source, max_tokens: int) -> Draft:
        """A source's draft, its cost learned and the draft kept for comparison with the text."""
        before = source.stats.time_s
        draft = source.ask(max_tokens)
        passes = (source.stats.time_s - before) / self.costs.plain_seconds
        self._records[source].cost.observe(max(passes / max(len(draft.token_ids), 1), _LEAST_COST))
        self._seen.append((source, draft))
        return draft

    def _best_cut(self, source: Source, draft: Draft) -> _Option:
        """As much of a draft as pays."""
        curves = self._records[source].acceptance
        expected = curves.expected_tokens(draft.match_length, len(draft.token_ids))
        best = max((self._option(expected, n) for n in range(len(expected))), key=_Option.rank)
        return replace(best, source=source, draft=first_tokens(draft, best.length)) if best.length else best

    def _whole(self, source: Source, draft: Draft, cost: float) -> _Option:
        length = len(draft.token_ids)
        expected = self._records[source].acceptance.expected_tokens(draft.match_length, length)
        return replace(self._option(expected, length, cost), source=source, draft=draft)

    def _forecast(self, source: Source, limit: int, cost: float) -> _Option:
        """The best that a source can be asked for, by its drafts of every strength."""
        expected = self._records[source].acceptance.expected_tokens(None, limit)
        options = (self._option(expected, n, cost) for n in range(1, limit + 1))
        return replace(max(options, key=lambda option: option.value), source=source)

    def _option(self, expected: list[float], length: int, cost: float = 0.0) -> _Option:
        passes = self.costs.relative(1 + length) + length * cost
        value = expected[length] - self.rate * passes
        return _Option(value, length, expected[length], passes, self.costs.stale(1 + length))
