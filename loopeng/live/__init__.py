"""An application's traffic: its calls answered within the loop, recorded, and made ready to improve the prompt by.

::

    tasks        inputs as samples, calls as a task: ``live:<prompt>``
    redaction    what is taken out of texts before anything is written
    heads        the prompts' heads, kept for a few seconds
    reach        the database, which may be away for a while
    records      the rows of one call, until it is answered
    recorder     calls on their way into the database
    calls        one call: answered, judged, retried, recorded
"""

from loopeng.live.calls import Answer, Asked, LiveCalls
from loopeng.live.tasks import (
    arguments,
    live_sample,
    live_task,
    readable_inputs,
    recorded_task,
    refuse_live_objects,
    with_samples,
)

__all__ = [
    "Answer",
    "Asked",
    "LiveCalls",
    "arguments",
    "live_sample",
    "live_task",
    "readable_inputs",
    "recorded_task",
    "refuse_live_objects",
    "with_samples",
]
