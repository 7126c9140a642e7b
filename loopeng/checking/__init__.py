"""What can be known of a task before a run.

::

    fields         which fields of the samples nobody uses, and which some samples lack
    trying         an answer of ours before the evaluators
    self_tests     answers whose verdict the task's author wrote down
    baselines      answers that do nothing, and the targets as answers
    last_run       what the database knows, read without changing it
    forecast       the power the gate is going to have
    cost           attempts, tokens and time of a run, and whether the limits allow them
    asking         the first prompt, to the engine: only where somebody wants that
    whole          all of it
"""

from loopeng.checking.asking import ask_engine
from loopeng.checking.baselines import Baseline, Baselines, TargetTrial, try_baselines
from loopeng.checking.cost import CostEstimate, LimitReached, Spending, estimate_cost
from loopeng.checking.fields import FieldUse, find_field_use
from loopeng.checking.forecast import GateForecast, PowerAt, forecast_gate
from loopeng.checking.last_run import LastRun, read_last_run
from loopeng.checking.self_tests import SelfTestResult, run_self_tests
from loopeng.checking.trying import Bench
from loopeng.checking.whole import TaskCheck, check_task

__all__ = [
    "Baseline",
    "Baselines",
    "Bench",
    "CostEstimate",
    "FieldUse",
    "GateForecast",
    "LastRun",
    "LimitReached",
    "PowerAt",
    "SelfTestResult",
    "Spending",
    "TargetTrial",
    "TaskCheck",
    "ask_engine",
    "check_task",
    "estimate_cost",
    "find_field_use",
    "forecast_gate",
    "read_last_run",
    "run_self_tests",
    "try_baselines",
]
