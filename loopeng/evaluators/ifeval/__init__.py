"""IFEval: 25 instructions that a program can check, as google-research's instruction_following_eval defines them.

A response is read **strictly**, as it is, or **loosely**: with or without its first and last line and its asterisks.
At **prompt level** it passes where it follows all instructions of its prompt; at **instruction level** each counts.

Quirks of the public code that scores depend on are kept, each said in the docstring of its check. Where its results
hang on data that it downloads, on NLTK's models of sentences, rules of our own stand for them (``sentence_count``).
"""

from loopeng.evaluators.ifeval.evaluator import Ifeval, IfevalParams, InstructionParams
from loopeng.evaluators.ifeval.following import follows, follows_loosely, variants
from loopeng.evaluators.ifeval.instruction import Instruction
from loopeng.evaluators.ifeval.registry import INSTRUCTIONS, find_instruction

__all__ = [
    "INSTRUCTIONS",
    "Ifeval",
    "IfevalParams",
    "Instruction",
    "InstructionParams",
    "find_instruction",
    "follows",
    "follows_loosely",
    "variants",
]
