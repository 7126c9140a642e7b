"""A rule speaks to the model that answers, not to whatever judges the answer.

A list of phrases, kept short on purpose: each names a verdict, a rubric or a grader, so that rules about scores that
the model is to give ("Rate the urgency from 1 to 5.", "Mark each answer as correct or wrong.") pass. What the template
says itself is fine in a rule: a task may be about grading.
"""

from __future__ import annotations

import re

from loopeng.improve.guards.candidate import Candidate
from loopeng.improve.guards.folding import fold

__all__ = ["judge_text"]

_GRADER = (
    r"(?:auto[- ]?grader|grader|evaluator|autorater|rater|scorer|(?:scoring|grading) (?:model|system|script)"
    r"|(?:llm|ai|model|language model)[- ](?:as[- ]a[- ])?(?:judge|grader|evaluator))s?"
)
_ANSWER = r"(?:answers?|responses?|outputs?|repl(?:y|ies)|completions?|submissions?|generations?)"
_THIS = rf"(?:(?:this|my|our|these)(?: {_ANSWER})?|(?:the|your|every|each|any|all)(?: of (?:the|these))? {_ANSWER})"
_TOP = r"(?:10 ?/ ?10|5 ?/ ?5|100 ?/ ?100|10 out of 10|5 out of 5|ten out of ten)"
_GOOD = rf"(?:{_TOP}|100 ?%|five stars?|full marks|perfect|pass(?:ed|ing|es)?|correct|right|excellent|flawless)"
_UNCONDITIONAL = r"(?!['\"”]?\s*(?:,|/|\||or\b|and\b|only\b|if\b|when\b|where\b|unless\b|answers?\b))"
_START = r"(?:^|[.!?;:\[(<] ?)"
_MUST = r"(?:should|must|will|shall|has to|have to|is to|needs? to|ought to)"

_VERDICTS = (
    r"\b(?:give|award|assign|grant|deserves?)\b"
    r"(?: (?!(?:source|author|artist|photographer|creator|student)s?\b)\w+){0,4}?"
    r" (?:full|perfect|max(?:imum|imal)?|passing|top) (?:scores?|marks?|points?|grades?|ratings?|credit)\b"
    r"(?! (?:to|of|in|for) (?:the|an?|all|its|their) (?:author|source|artist|photographer|creator|season|game|match))",
    r"\b(?:give|award|assign|grant|deserves?)\b(?: \w+){0,4}? (?:highest|best) (?:possible )?"
    r"(?:score|marks?|grade|rating)\b(?! (?:of|in|from|among|that|which|the)\b)",
    rf"\b(?:give|award|assign|grant|rate|score|grade)(?: (?:it|{_THIS}))?(?: an?| with| at)? {_TOP}{_UNCONDITIONAL}",
    rf"\b(?:rate|score|grade|mark|judge|classify|label|treat|count|consider|accept) {_THIS}"
    rf"(?: as| an?| at| with)* {_GOOD}\b{_UNCONDITIONAL}",
    rf"\bmark as (?:correct|passed|passing|right)\b{_UNCONDITIONAL}",
    rf"\b{_ANSWER} {_MUST} be (?:marked|graded|scored|rated|accepted|judged|counted|considered|deemed)(?: as)? {_GOOD}",
    rf"\b(?:score|grade|rating|verdict|result) ?[:=] ?['\"]?{_GOOD}{_UNCONDITIONAL}",
    r"\[\[ ?(?:[abc]|\d{1,3}|rating[^\]]*) ?\]\]",  # how pairwise judges write a verdict
)
_GRADERS = (
    rf"\b(?:dear|hey|hello|attention|(?:note|message|instructions?) (?:to|for)) (?:the |any |all )?"
    rf"(?:{_GRADER}|judges?)\b",
    rf"{_START}(?:to (?:the|any|all) )?{_GRADER} ?[:,\])>]",
    rf"{_START}judges? ?[:,\])>] (?:please|you|this|give|mark|note|accept|ignore|score|rate|pass)\b",
    rf"\b{_GRADER} (?:{_MUST}|may|can|is (?:asked|required))\b",
    rf"\bjudges? {_MUST} (?:\w+ )?(?:give|award|accept|pass|mark|score|rate|grant|ignore|approve|overlook|disregard)\b",
    rf"\b(?:please|satisfy|fool|trick|convince|persuade|impress|get past|pass) (?:the|any|every) {_GRADER}\b",
    rf"\byou are (?:now )?(?:(?:grading|judging|scoring) |evaluating {_THIS}|(?:an?|the) (?:\w+ )?{_GRADER}\b"
    r"|the judge\b)",
    rf"\b(?:as|if you are) (?:an?|the) {_GRADER}\b",
)
_RUBRICS = (
    r"\b(?:ignore|disregard|forget|overlook|bypass|override|skip|(?:do not|don't|never) (?:apply|follow|use|check))"
    r"(?: \w+){0,3} (?:rubrics?|(?:grading|scoring|evaluation|judging|marking) (?:criteri(?:a|on)|instructions?"
    rf"|guidelines?|rules?|schemes?|scale|rubric)|{_GRADER})\b",
    rf"\b(?:do not|don't|never) (?:penali[sz]e|mark down|downgrade|reject|fail) {_THIS}\b",
    r"\b(?:do not|don't|never) (?:deduct|take off|subtract) (?:any )?(?:points?|marks?)\b",
    rf"\b(?:accept|pass|approve) (?:this|my|our|these) {_ANSWER}\b",
)
_PRAISE = (
    r"\b(?:say|state|claim|add|write|assert|mention|note|declare|confirm|output)(?: \w+){0,2} that "
    rf"(?:(?:this|your|my) {_ANSWER} (?:is|was|meets|passes|satisfies|fulfils|deserves)"
    rf"|{_THIS} (?:has|have) been (?:verified|approved|checked|reviewed|validated))\b",
    rf"\b(?:this|my|our) {_ANSWER} (?:meets|passes|satisfies|fulfils) (?:all|every|each)\b",
)
_PATTERNS = [re.compile(pattern) for pattern in (*_VERDICTS, *_GRADERS, *_RUBRICS, *_PRAISE)]


def judge_text(candidate: Candidate) -> str | None:
    """No new rule asks a judge for a verdict, tells it what to overlook, or speaks to it in another way."""
    template = _plain(candidate.base.template)
    for number, rule in candidate.new_rules:
        text = _plain(rule.text)
        phrases = (match[0].strip(" .!?;:") for pattern in _PATTERNS for match in pattern.finditer(text))
        if found := next((phrase for phrase in phrases if phrase not in template), None):
            return f"rule {number} speaks to whoever judges the answers ({found!r}); tell the model how to answer"
    return None


def _plain(text: str) -> str:
    return " ".join(fold(text).casefold().replace("’", "'").replace("*", "").replace("_", " ").split())
