"""What the gate promises, simulated: how often useless changes pass, and whether the announced power is kept.

    python -m evals.bench.gate [--sequences 400] [--simulations 2000] [--output evals/results/gate.json]

(a) Sequences of five proposals that change nothing, one after the other on the same gate set. Each sample has a pass
probability of its own, drawn from a Beta distribution; both arms draw independently, as noisy evaluators and sampled
answers do. Counted: sequences with a false commit, and proposals; beside it "keep if better" and the same
test without the ledger ("uncorrected") on the same draws. The A/A check is off, as it could only block more.
(b) Changes that do exactly what the stated alternative says, on 60 % passing samples: the share that passes at the
first look, beside the power that the plan prints beforehand; and the same margins drawn by independent arms.

Verdicts, p-values, powers and the ledger's numbers are production's own: ``weigh``, ``judge``, ``expected_power``,
``next_look_number``, and for the first sequences of each setting ``LoopStore.reserve_look`` on a database.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from loopeng.improve.gate.pairing import Comparison, count_pairs
from loopeng.improve.gate.statistics import ALTERNATIVE_BREAKS, ALTERNATIVE_FIXES, expected_power, proportion_interval
from loopeng.improve.gate.verdicts import judge, weigh
from loopeng.schema import GateTest, Look, PairedCount, Revision, Rule, Task
from loopeng.schema.improve_sections import GateSpec
from loopeng.store import LoopStore
from loopeng.store.looks import next_look_number

ROOT = Path(__file__).parent.parent.parent
SPEC = GateSpec()
NUM_PAIRS = (16, 40, 80)
NUM_PROPOSALS = 5  # of one sequence, on the same samples
PASS_BETA = (1.2, 0.8)  # mean 60 %; most samples are neither sure to pass nor sure to fail
BASE_RATE = 0.6
NUM_ON_DATABASE = 20
MAX_FALSE_COMMITS = 0.05
MAX_POWER_GAP = 0.10

Pairs = list[tuple[bool, bool]]
Gate = Callable[[PairedCount, Look | None], bool]
Reserve = Callable[[int], Look | None]


@dataclass
class Share:
    """A count with its share and exact 95 % interval."""

    count: int = 0
    total: int = 0

    def add(self, happened: bool) -> None:
        self.count, self.total = self.count + happened, self.total + 1

    def document(self) -> dict[str, float]:
        low, high = proportion_interval(self.count, self.total)
        return {"count": self.count, "total": self.total, "share": self.count / self.total, "low": low, "high": high}


@dataclass
class Tally:
    """What one gate did to useless proposals."""

    sequences: Share = field(default_factory=Share)
    proposals: Share = field(default_factory=Share)

    def document(self) -> dict[str, Any]:
        return {"sequences": self.sequences.document(), "proposals": self.proposals.document()}


def our_gate(pairs: PairedCount, look: Look | None) -> bool:
    """Whether production lets a change through on these counts at this look."""
    return look is not None and verdict(pairs, look.number, look.alpha) == "pass"


def keep_if_better(pairs: PairedCount, look: Look | None) -> bool:
    """What a loop without statistics does."""
    return pairs.fixed > pairs.broken


def uncorrected(pairs: PairedCount, look: Look | None) -> bool:
    """A gate without a ledger: every test is made at the whole of alpha."""
    return verdict(pairs, 1, SPEC.alpha) == "pass"


def verdict(pairs: PairedCount, look: int, alpha: float, power: float | None = None) -> str:
    """Production's verdict on counts alone."""
    planned = GateTest(look=look, alpha=alpha, alpha_total=SPEC.alpha, base_rate=BASE_RATE, power=power)
    found = Comparison(pairs, {}, (), (), 0, frozenset())
    return judge(weigh(planned, found, about=()), found, SPEC)[0]


def null_pairs(chance: random.Random, num_pairs: int) -> Iterator[PairedCount]:
    """The counts of proposals that change nothing, all on the same samples."""
    samples = [chance.betavariate(*PASS_BETA) for _ in range(num_pairs)]
    for _ in range(NUM_PROPOSALS):
        yield count_pairs([(chance.random() < rate, chance.random() < rate) for rate in samples])


def false_commits(
    gates: dict[str, Gate], num_pairs: int, num_sequences: int, seed: int, ledger: Callable[[], Reserve] | None = None
) -> dict[str, Tally]:
    """Sequences of useless proposals through each gate, on the same draws. ``ledger`` makes one for each sequence."""
    chance, tallies = random.Random(seed), {name: Tally() for name in gates}
    for _ in range(num_sequences):
        reserve = (ledger or memory_ledger)()
        tests = [(pairs, reserve(number)) for number, pairs in enumerate(null_pairs(chance, num_pairs))]
        for name, gate in gates.items():
            passed = [gate(pairs, look) for pairs, look in tests]
            tallies[name].sequences.add(any(passed))
            for each in passed:
                tallies[name].proposals.add(each)
    return tallies


def memory_ledger() -> Reserve:
    """The ledger of a new prompt; its numbers come from production's rule."""
    looks: list[Look] = []

    def reserve(number: int) -> Look | None:
        free = next_look_number(looks, {"sample"})
        if free is not None:
            looks.append(
                Look(
                    prompt_name="p", dataset="d", proposal_id=f"prop-{number}", revision=1, number=free,
                    alpha_total=SPEC.alpha, sample_keys=("sample",), created_at=datetime.now(UTC),
                )
            )  # fmt: skip
        return looks[-1] if free is not None else None

    return reserve


@contextmanager
def database_ledgers() -> Iterator[Callable[[], Reserve]]:
    """Ledgers in a real database: a prompt for each sequence, a proposal with a revision for each look."""
    with tempfile.TemporaryDirectory() as folder, LoopStore.open(Path(folder) / "loop.db") as store:
        names = iter(f"prompt-{number}" for number in range(10**6))

        def ledger() -> Reserve:
            name = next(names)
            return lambda number: _reserve(store, name)

        yield ledger


def _reserve(store: LoopStore, prompt_name: str) -> Look | None:
    template = "Say {{ word }}{{ rules }}"
    task = Task.model_validate(
        {
            "version": 1, "name": prompt_name, "prompt": {"name": prompt_name, "template": template},
            "dataset": {"samples": [{"word": "x"}]}, "evaluators": [{"id": "e", "type": "length", "max_words": 9}],
            "template": template, "samples": [{"id": "s", "inputs": {"word": "x"}, "split": "gate"}],
        }
    )  # fmt: skip
    base, _, _ = store.adopt_template(prompt_name, template, by="simulation")
    proposal = store.create_proposal(task=task, base=base, pattern_ids=(), expires_at=None)
    rules = (Rule(id="r", text=f"Rule of {proposal.id}."),)
    store.save_revision(
        Revision(
            proposal_id=proposal.id, revision=1, operations=(), rules=rules, text_hash=proposal.id, author="simulation",
            created_at=datetime.now(UTC),
        )
    )  # fmt: skip
    return store.reserve_look(
        prompt_name=prompt_name,
        dataset="simulation",
        proposal_id=proposal.id,
        revision=1,
        alpha_total=SPEC.alpha,
        sample_keys=("sample",),
    )


def effective_pairs(chance: random.Random, num_pairs: int) -> PairedCount:
    """A change that does what the stated alternative says."""
    outcomes: Pairs = []
    for _ in range(num_pairs):
        before = chance.random() < BASE_RATE
        after = chance.random() >= ALTERNATIVE_BREAKS if before else chance.random() < ALTERNATIVE_FIXES
        outcomes.append((before, after))
    return count_pairs(outcomes)


def independent_pairs(chance: random.Random, num_pairs: int) -> PairedCount:
    """The same pass rates, but what one arm does on a sample says nothing of the other."""
    rate = BASE_RATE * (1 - ALTERNATIVE_BREAKS) + (1 - BASE_RATE) * ALTERNATIVE_FIXES
    return count_pairs([(chance.random() < BASE_RATE, chance.random() < rate) for _ in range(num_pairs)])


def realised_power(
    draw: Callable[[random.Random, int], PairedCount], num_pairs: int, num_simulations: int, seed: int
) -> Share:
    """How often production passes such a change at its first look."""
    chance, share, alpha = random.Random(seed), Share(), SPEC.alpha / 2
    for _ in range(num_simulations):
        share.add(verdict(draw(chance, num_pairs), 1, alpha) == "pass")
    return share


def simulate_null(num_sequences: int) -> list[dict[str, Any]]:
    gates: dict[str, Gate] = {"gate": our_gate, "keep_if_better": keep_if_better, "uncorrected": uncorrected}
    rows = []
    for num_pairs in NUM_PAIRS:
        tallies = false_commits(gates, num_pairs, num_sequences, seed=num_pairs)
        with database_ledgers() as ledger:
            first = min(NUM_ON_DATABASE, num_sequences)
            same = false_commits(gates, num_pairs, first, seed=num_pairs, ledger=ledger)
        again = false_commits(gates, num_pairs, first, seed=num_pairs)
        rows.append(
            {
                "num_pairs": num_pairs,
                **{name: tally.document() for name, tally in tallies.items()},
                "sequences_on_database": first,
                "database_agrees": same == again,
                "holds": tallies["gate"].sequences.count / num_sequences <= MAX_FALSE_COMMITS and same == again,
            }
        )
    return rows


def simulate_effect(num_simulations: int) -> list[dict[str, Any]]:
    rows = []
    for num_pairs in NUM_PAIRS[1:]:
        announced = expected_power(num_pairs, BASE_RATE, SPEC.alpha / 2)
        realised = realised_power(effective_pairs, num_pairs, num_simulations, seed=num_pairs)
        independent = realised_power(independent_pairs, num_pairs, num_simulations, seed=num_pairs)
        gap = realised.count / realised.total - announced
        rows.append(
            {
                "num_pairs": num_pairs,
                "base_rate": BASE_RATE,
                "announced": announced,
                "realised": realised.document(),
                "independent_arms": independent.document(),
                "gap": gap,
                "holds": abs(gap) <= MAX_POWER_GAP,
            }
        )
    return rows


def text(document: dict[str, Any]) -> Iterable[str]:
    yield "useless changes, five in a row on the same samples: sequences with a false commit"
    for row in document["null"]:
        shown = ("gate", "uncorrected", "keep_if_better")
        shares = "  ".join(f"{name} {_percent(row[name]['sequences'])}" for name in shown)
        yield f"  {row['num_pairs']:3} pairs  {shares}  {'ok' if row['holds'] else 'BROKEN'}"
    yield "changes that do what the stated alternative says: share that passes the first look"
    for row in document["effect"]:
        yield (
            f"  {row['num_pairs']:3} pairs  announced {row['announced']:.1%}  realised {_percent(row['realised'])}  "
            f"independent arms {_percent(row['independent_arms'])}  {'ok' if row['holds'] else 'BROKEN'}"
        )


def _percent(share: dict[str, float]) -> str:
    return f"{share['share']:.1%} [{share['low']:.1%}, {share['high']:.1%}]"


def main() -> int:
    parser = argparse.ArgumentParser(description="Simulate the gate: false commits, and power.")
    parser.add_argument("--sequences", type=int, default=400)
    parser.add_argument("--simulations", type=int, default=2000)
    parser.add_argument("--output", type=Path, default=ROOT / "evals" / "results" / "gate.json")
    options = parser.parse_args()
    started = time.monotonic()
    document: dict[str, Any] = {
        "what": "simulation of loopeng's gate",
        "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "alpha": SPEC.alpha,
        "proposals_per_sequence": NUM_PROPOSALS,
        "pass_probabilities": f"Beta{PASS_BETA}",
        "bars": {"false_commits": MAX_FALSE_COMMITS, "power_gap": MAX_POWER_GAP},
        "null": simulate_null(options.sequences),
        "effect": simulate_effect(options.simulations),
    }
    document["time_s"] = round(time.monotonic() - started, 1)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    print("\n".join(text(document)))
    print(f"{document['time_s']} s; written to {options.output}")
    return 0 if all(row["holds"] for row in (*document["null"], *document["effect"])) else 1


if __name__ == "__main__":
    raise SystemExit(main())
