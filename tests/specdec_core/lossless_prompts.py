"""Twenty prompts of several kinds, two of which grow across cache slots 512 and 1024 while they are answered."""

from __future__ import annotations

from specdec_core.tokenizer import Tokenizer

__all__ = ["NUM_PROMPTS", "prompt_ids"]

QUESTIONS = (
    "Name three fruits.",
    "What is the capital of France? Answer in one word.",
    "Write a haiku about the sea.",
    "Explain in two sentences why the sky is blue.",
    "Count from one to twenty in words.",
    "Repeat this exactly, three times: the quick brown fox jumps over the lazy dog.",
    "Translate to French: The book is on the table.",
    "Schreibe einen Satz über den Winter.",
    "List the days of the week as JSON.",
    "Tom has 3 boxes with 4 apples each and eats 2. How many are left? Think step by step.",
    "Fix the spelling: I recieved teh pakage yesterdya.",
    "Write a Python function that adds two numbers.",
)
CONTINUATIONS = (
    "def fibonacci(n):\n    if n < 2:\n        return n\n    return",
    '{"name": "mug", "price": 12, "tags": ["kitchen", "blue"]}\n{"name": "lamp", "price": 30, "tags": [',
    "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11,",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "| city | country |\n|---|---|\n| Paris | France |\n| Rome | Italy |\n| Madrid |",
    "naïve café 🙂 日本語 テスト 🙂 日本語",
)
STORY = (
    "The harbour was quiet when Mara came down the steps. Two boats lay at the wall, a red one and a blue one, and "
    "between them the water moved a little, as it always did before the tide turned. She counted the ropes, one, two, "
    "three, four, and wrote the number into the book that her father had left her. "
)
LONG_LENGTHS = (500, 1012)  # answers of 32 tokens cross 512 and 1024
NUM_PROMPTS = len(QUESTIONS) + len(CONTINUATIONS) + len(LONG_LENGTHS)


def prompt_ids(tokenizer: Tokenizer, number: int) -> tuple[int, ...]:
    """Ids of prompt ``number`` (0 to NUM_PROMPTS - 1)."""
    if number < len(QUESTIONS):
        return tuple(tokenizer.encode_chat([{"role": "user", "content": QUESTIONS[number]}]))
    number -= len(QUESTIONS)
    if number < len(CONTINUATIONS):
        return tuple(tokenizer.encode(CONTINUATIONS[number]))
    length = LONG_LENGTHS[number - len(CONTINUATIONS)]
    text = "".join(f"Chapter {chapter}. {STORY}" for chapter in range(1, 40))
    return tuple(tokenizer.encode(text)[:length])
