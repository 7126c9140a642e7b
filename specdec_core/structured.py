"""Structured output: a grammar (JSON Schema or regular expression) that the text must follow, by llguidance.

The grammar masks the logits of every row (Willard and Louf 2023, arXiv 2307.09702): the law of a token is the model's
own, restricted to what may follow. A mask is a function of the tokens before it alone, so drafts change the number of
passes and never the text. Where the grammar leaves one text only, llguidance allows its canonical tokens only, one a
row; these are drafts that cost nothing (SGLang jumps over such runs: Zheng et al. 2023, arXiv 2312.07104).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from specdec_core.drafters.base import DraftContext, Drafter
from specdec_core.errors import RequestError
from specdec_core.schema_keywords import check_keywords, subschemas
from specdec_core.sequences import common_length
from specdec_core.types import Draft, StructuredOutput

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer
    from llguidance._lib import JsonCompileOptions

__all__ = ["ForcedDrafter", "GrammarConstraint", "can_hold_forms", "make_constraint"]

# As json.dumps writes. Free white space would let a small model write blanks for ever; an escape like "\u0061" would
# let it write a known name as if it were an unknown one.
_JSON_STYLE: JsonCompileOptions = {
    "item_separator": ", ",
    "key_separator": ": ",
    "whitespace_flexible": False,
    "lenient": False,
    "json_allowed_escapes": '"\\bfnrt',
}


class GrammarConstraint:
    """A :class:`~specdec_core.sampling.Constraint` over one llguidance matcher.

    Callers name the whole prefix; the matcher is moved there from the last one: forward by the tokens that are new,
    back by those that a rejection took away. Ids beyond the tokenizer's (a padded embedding) and special tokens are
    never allowed; end-of-sequence ids are, exactly where the grammar may end, and nothing else after them.
    """

    def __init__(self, matcher: LLMatcher, vocabulary: LLTokenizer, vocab_size: int) -> None:
        self._matcher = matcher
        self._eos_token_ids = eos_token_ids = frozenset(vocabulary.eos_tokens)
        self._vocab_size = vocab_size
        self._num_known = min(vocab_size, vocabulary.vocab_size)  # the matcher would be lost after an id beyond
        self._end = torch.zeros(vocab_size, dtype=torch.bool)
        self._end[[token_id for token_id in eos_token_ids if token_id < vocab_size]] = True
        self._prefix: list[int] = []  # the tokens that the matcher has read

    def allowed(self, generated_ids: Sequence[int]) -> Tensor:
        """Which tokens may follow, [vocab], bool, on the CPU; the caller must not write into it.

        Raises RequestError where the grammar does not allow ``generated_ids``, or is too complex to go on.
        """
        if self._move(generated_ids) or self._matcher.is_stopped():
            return self._end
        biases = bytearray(self._matcher.compute_logit_bias())  # a byte per token, 0 or not
        if self._matcher.is_error():  # its mask would allow the end, as if the text were complete
            raise RequestError(f"the grammar cannot go on after {len(generated_ids)} tokens: {self._fault()}")
        mask = torch.frombuffer(biases, dtype=torch.bool)[: self._num_known]
        return torch.nn.functional.pad(mask, (0, self._vocab_size - self._num_known))

    def forced(self, generated_ids: Sequence[int], max_tokens: int) -> tuple[int, ...]:
        """The tokens that must follow because each is the only one allowed, at most ``max_tokens``; often none."""
        if max_tokens < 1 or self._move(generated_ids) or self._matcher.is_stopped():
            return ()
        return tuple(self._matcher.compute_ff_tokens()[:max_tokens])

    def num_possible(self, generated_ids: Sequence[int], token_ids: Sequence[int]) -> int:
        """How many of ``token_ids``, from the first on, the grammar can read after ``generated_ids``."""
        if self._move(generated_ids):
            return 0
        known = next((n for n, token_id in enumerate(token_ids) if not self._knows(token_id)), len(token_ids))
        return self._matcher.validate_tokens(list(token_ids[:known]))

    def is_complete(self, generated_ids: Sequence[int]) -> bool:
        """Whether the text is whole and nothing but an end-of-sequence token may follow."""
        return self._move(generated_ids) or (self._matcher.is_stopped() and not self._matcher.is_error())

    def _move(self, prefix: Sequence[int]) -> bool:
        """Bring the matcher to ``prefix``; True where an end-of-sequence token in it ended the text before."""
        num_common = common_length(self._prefix, prefix)
        if num_common < len(self._prefix):
            self._matcher.rollback(len(self._prefix) - num_common)
            del self._prefix[num_common:]
        for token_id in prefix[num_common:]:
            if token_id in self._eos_token_ids:
                return True
            if not self._knows(token_id) or self._matcher.try_consume_tokens([token_id]) != 1:
                fault = f": {self._fault()}" if self._matcher.is_error() else ""
                raise RequestError(f"the grammar does not allow token {token_id!r} at index {len(self._prefix)}{fault}")
            self._prefix.append(token_id)
        return False

    def _knows(self, token_id: int) -> bool:
        return 0 <= token_id < self._num_known

    def _fault(self) -> str:
        return (self._matcher.get_error() or self._matcher.stop_reason()).splitlines()[0]


_CERTAIN = 64  # as good as the longest matches of text: acceptance is kept by match length


class ForcedDrafter:
    """Drafts what the grammar forces, and around it what another drafter says, as far as the grammar can read it.

    A draft that was drawn (``Draft.probs``) is passed on whole or not at all, and which of the two does not depend on
    it: to cut it by its tokens would bend the law of rejection verification.
    """

    def __init__(self, drafter: Drafter, constraint: GrammarConstraint) -> None:
        self._drafter, self._constraint = drafter, constraint
        self._generated_ids: list[int] = []

    @property
    def name(self) -> str:
        """The other drafter's name, told apart."""
        return f"forced+{self._drafter.name}"

    def begin(self, context: DraftContext) -> None:
        """Begin the other drafter."""
        self._generated_ids = []
        self._drafter.begin(context)

    def propose(self, max_tokens: int) -> Draft:
        """The other draft where it begins with the forced tokens, these alone elsewhere; then what is forced after."""
        draft = self._drafter.propose(max_tokens)
        forced = self._constraint.forced(self._generated_ids, max_tokens)
        if draft.probs is not None:
            return Draft(forced, "forced", match_length=_CERTAIN) if forced else draft
        if tuple(draft.token_ids[: len(forced)]) != forced:
            draft = Draft(forced, "forced", match_length=_CERTAIN)
        num_possible = self._constraint.num_possible(self._generated_ids, draft.token_ids)
        token_ids = draft.token_ids[:num_possible]
        after = self._constraint.forced([*self._generated_ids, *token_ids], max_tokens - num_possible)
        source, match_length = (draft.source, draft.match_length) if token_ids else ("forced", _CERTAIN)
        return Draft((*token_ids, *after), source, match_length=match_length)

    def observe(self, token_ids: Sequence[int]) -> None:
        """Tell the other drafter."""
        self._generated_ids.extend(token_ids)
        self._drafter.observe(token_ids)

    def end(self) -> None:
        """End the other drafter."""
        self._drafter.end()


def can_hold_forms(tokenizer: Any) -> bool:
    """The extra [structured] is installed, and this tokenizer can be read for grammars."""
    readable = hasattr(tokenizer, "fast_tokenizer_json") and bool(tokenizer.eos_token_ids)
    return readable and find_spec("llguidance") is not None


def make_constraint(structured: StructuredOutput, tokenizer: Any, vocab_size: int) -> GrammarConstraint:
    """The constraint of one request; ``vocab_size`` is the number of the target's logits.

    Raises RequestError: the schema or regex is wrong, unsupported or without any text, and where; llguidance is not
    installed; the tokenizer cannot be used for grammars.
    """
    vocabulary = _vocabulary(tokenizer)
    grammar = _grammar(structured, vocabulary)
    from llguidance import LLMatcher

    constraint = GrammarConstraint(LLMatcher(vocabulary, grammar, log_level=0), vocabulary, vocab_size)
    constraint.allowed(())  # a grammar without any text is told now
    return constraint


_VOCABULARIES: WeakKeyDictionary[Any, LLTokenizer] = (
    WeakKeyDictionary()
)  # built once per loaded model: it takes seconds


def _vocabulary(tokenizer: Any) -> LLTokenizer:
    try:
        from llguidance import LLTokenizer
    except ImportError as error:
        raise RequestError("structured output needs llguidance: pip install 'loopeng[structured]'") from error
    if tokenizer in _VOCABULARIES:
        return _VOCABULARIES[tokenizer]
    if not hasattr(tokenizer, "fast_tokenizer_json"):
        raise RequestError(f"structured output needs a tokenizer with fast_tokenizer_json; {tokenizer!r} has none")
    if not tokenizer.eos_token_ids:
        raise RequestError("structured output needs an end-of-sequence token, and this model names none")
    try:
        vocabulary = LLTokenizer(tokenizer.fast_tokenizer_json(), eos_token=sorted(tokenizer.eos_token_ids))
    except ValueError as error:
        raise RequestError(f"grammars cannot use this model's tokenizer: {error}") from error
    return _VOCABULARIES.setdefault(tokenizer, vocabulary)


def _grammar(structured: StructuredOutput, vocabulary: LLTokenizer) -> str:
    from llguidance import LLMatcher

    if structured.regex is not None:
        try:
            grammar = LLMatcher.grammar_from_regex(structured.regex)
        except UnicodeEncodeError as error:  # half a surrogate pair
            raise RequestError(f"regex: not valid Unicode: {error}") from None
        if message := LLMatcher.validate_grammar(grammar, vocabulary):
            raise RequestError(f"regex: {_reason(message)}")
        return grammar
    schema = {"type": "object"} if structured.json_schema is None else structured.json_schema
    check_keywords(schema)
    grammar = _schema_grammar(schema)
    if message := LLMatcher.validate_grammar(grammar, vocabulary):
        raise RequestError(f"json_schema: {_place(schema, message, vocabulary)}: {_reason(message)}")
    return grammar


def _schema_grammar(schema: Mapping[str, Any]) -> str:
    from llguidance import LLMatcher

    try:
        return LLMatcher.grammar_from_json_schema(json.dumps(schema), overrides=_JSON_STYLE)
    except (TypeError, ValueError) as error:
        raise RequestError(f"json_schema: not a JSON object: {error}") from None


def _place(schema: Mapping[str, Any], message: str, vocabulary: LLTokenizer) -> str:
    """The innermost part of ``schema`` that fails alone as the whole does."""
    from llguidance import LLMatcher

    shared = {name: schema[name] for name in ("$defs", "definitions") if name in schema}
    for path, part in subschemas(schema):
        if LLMatcher.validate_grammar(_schema_grammar({**shared, **part}), vocabulary) == message:
            return path
    return "$"


def _reason(message: str) -> str:
    """One line of the library's message; for a regular expression with the place in it."""
    found = re.search(r"\n    .*\n    ( *)\^+\nerror: (.+)", message)
    return f"at character {len(found[1]) + 1}: {found[2]}" if found else message.splitlines()[0]
