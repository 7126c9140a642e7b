"""Evaluators that ask a model: ``llm_judge`` (by named criteria) and ``pairwise`` (which of two answers is better).

A reply that cannot be read is asked for once more; then the result is an error, never a pass or a fail.
"""

from loopeng.evaluators.judge.llm_judge import JudgeParams, LlmJudge, llm_judge
from loopeng.evaluators.judge.model_judge import ModelJudge, ModelJudgeParams
from loopeng.evaluators.judge.pairwise import Pairwise, PairwiseParams, pairwise

__all__ = [
    "JudgeParams",
    "LlmJudge",
    "ModelJudge",
    "ModelJudgeParams",
    "Pairwise",
    "PairwiseParams",
    "llm_judge",
    "pairwise",
]
