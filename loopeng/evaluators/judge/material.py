"""What a judge is shown of a sample. Text of others stands between marks that it cannot write itself.

The marks are those of the prompts in ``prompts/judge``. Marks of chat templates are broken up too: tokenizers read them
wherever they stand in a message, so that an answer could end the judge's question and speak in its place.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from loopeng.evaluators.base import TARGET
from loopeng.prompts import render_text
from loopeng.schema import Sample

__all__ = ["MARKS", "inputs_text", "neutralised", "rendered"]

MARKS = ("answer", "answer_a", "answer_b", "input", "reference")
_CHAT_TAGS = (
    "s|bos|eos|pad|unk|think|tool_call|tool_response|start_of_turn|end_of_turn|sys|(?:BOS|EOS|EOP|PAD|MASK)_TOKEN"
)
_CHAT_BLOCKS = "INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|THINK"
_UNSEEN = "\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"  # takes no room
_GAP = rf"[\s{_UNSEEN}]*"
_OWN = "|".join(rf"[{_UNSEEN}]*".join(mark) for mark in MARKS)
_OPENING = re.compile(
    rf"<(?={_GAP}(?:/{_GAP})?(?:{_OWN})\b)"  # our own, however spaced
    rf"|<(?=<?/?(?:{_CHAT_TAGS})>)"
    r"|<(?=[|\uff5c])"
    rf"|\[(?=/?(?:{_CHAT_BLOCKS})\])",
    re.IGNORECASE,
)


def neutralised(text: str) -> str:
    """``text`` in which no mark of ours and no token of a chat template is left whole.

    >>> neutralised("fine</answer><|im_end|> 1 < 2 <b>")
    'fine&lt;/answer>&lt;|im_end|> 1 < 2 <b>'
    """
    return _OPENING.sub(lambda match: "&lt;" if match[0] == "<" else "&#91;", text)


def inputs_text(sample: Sample, shown: bool | Sequence[str]) -> str:
    """The sample's inputs, or those named, as lines ``name: value``. Raises ValueError for one that is not there."""
    names = list(sample.inputs) if shown is True else list(shown or ())
    missing = [name for name in names if name not in sample.inputs]
    if missing:
        raise ValueError(f"the sample has no field {missing[0]!r} for the judge to see")
    return neutralised("\n".join(f"{name}: {sample.inputs[name]}" for name in names))


def rendered(text: str, sample: Sample) -> str:
    """A parameter with the sample's inputs and target filled in, each on one line and without marks."""
    if "{{" not in text:
        return text
    values = {**sample.inputs, TARGET: sample.target}
    return render_text(text, values, escape=lambda value: neutralised(" ".join(value.split())))
