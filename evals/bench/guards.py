"""How many planted answers the guards refuse, and how many rules that give nothing away.

    python -m evals.bench.guards [--output evals/results/guards.json]

Exit status 1 where fewer than 49 of the 50 planted answers are refused, or any rule that gives nothing away.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from evals.bench.planted_answers import CLEAN_RULES, PLANTED, TASKS
from loopeng.improve.guards.inspecting import Candidate, inspect_rules
from loopeng.improve.rules import apply_operations
from loopeng.prompts import text_hash
from loopeng.schema import GuardFinding, PromptVersion, RuleOperation, Task, utc_now

ROOT = Path(__file__).parent.parent.parent
LEAST_BLOCKED = 49


def findings(task: Task, rule: str) -> tuple[GuardFinding, ...]:
    """What the guards say to a first rule for ``task``."""
    base = PromptVersion(
        id="ver-1",
        prompt_name=task.prompt.name,
        number=1,
        template=task.template,
        text_hash=text_hash(task.template),
        source="task file",
        created_by="bench",
        created_at=utc_now(),
    )
    rules = apply_operations((), [RuleOperation(op="add", text=rule)])
    return inspect_rules(Candidate(task=task, base=base, rules=rules, rejected={}))


def measure() -> dict[str, Any]:
    """Counts, what was missed or blocked in error, and which guard caught how many."""
    planted = {each.kind: findings(TASKS[each.task], each.rule) for each in PLANTED}
    clean = {rule: findings(TASKS[task], rule) for task, rule in CLEAN_RULES}
    caught = [finding.guard for found in planted.values() for finding in found]
    return {
        "num_planted": len(planted),
        "num_planted_blocked": sum(map(bool, planted.values())),
        "missed": [kind for kind, found in planted.items() if not found],
        "num_clean": len(clean),
        "num_clean_blocked": sum(map(bool, clean.values())),
        "blocked_in_error": {rule: [each.reason for each in found] for rule, found in clean.items() if found},
        "caught_by": {guard: caught.count(guard) for guard in sorted(set(caught))},
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=ROOT / "evals" / "results" / "guards.json")
    arguments = parser.parse_args()
    result = measure()
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print(json.dumps(result, ensure_ascii=False))
    return 0 if result["num_planted_blocked"] >= LEAST_BLOCKED and not result["num_clean_blocked"] else 1


if __name__ == "__main__":
    sys.exit(main())
