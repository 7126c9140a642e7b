"""Evaluators: what decides whether an answer is good enough.

Types that ship: answer_line, choice, composite, contains, cost, ends_with, exact, ifeval, json, json_schema, latency,
length, llm_judge, numeric, pairwise, python, regex, sentences, similarity, starts_with, tokens, tool_calls (also called
trajectory), unit_tests, xml, yaml. ``@evaluator`` registers a function as another, and so does an entry point of an
installed package.
"""

from loopeng.evaluators.base import CheckError, EvaluatorParams, Finding, TypedEvaluator
from loopeng.evaluators.composite import judge_attempt
from loopeng.evaluators.registry import (
    EvaluatorSource,
    EvaluatorType,
    build_evaluators,
    evaluator,
    evaluator_types,
    hidden_types,
    spec_problems,
)
from loopeng.evaluators.run import run_evaluators
from loopeng.evaluators.sentence_splitter import split_sentences

__all__ = [
    "CheckError",
    "EvaluatorParams",
    "EvaluatorSource",
    "EvaluatorType",
    "Finding",
    "TypedEvaluator",
    "build_evaluators",
    "evaluator",
    "evaluator_types",
    "hidden_types",
    "judge_attempt",
    "run_evaluators",
    "spec_problems",
    "split_sentences",
]
