"""What other tools need to find in a file of theirs: the required fields of both shapes, as JSON Schemas."""

from __future__ import annotations

from typing import Any

__all__ = ["INSPECT_LOG", "PROMPTFOO_FILE"]

_TEXT, _NUMBER, _COUNT, _BOOL = {"type": "string"}, {"type": "number"}, {"type": "integer"}, {"type": "boolean"}
_ANY_OBJECT = {"type": "object"}


def _object(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "properties": required | optional}


def _list(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


# promptfoo: OutputFile with EvaluateSummaryV3
_TOKENS = _object(
    dict.fromkeys(("prompt", "completion", "cached", "total", "numRequests"), _COUNT)
    | {"completionDetails": _ANY_OBJECT, "assertions": _ANY_OBJECT}
)
_GRADING = _object(
    {"pass": _BOOL, "score": _NUMBER, "reason": _TEXT},
    componentResults=_list(_object({"pass": _BOOL, "score": _NUMBER, "reason": _TEXT, "assertion": _ANY_OBJECT})),
)
_PROMPT = _object({"raw": _TEXT, "label": _TEXT})
_RESULT = _object(
    {
        "promptIdx": _COUNT,
        "testIdx": _COUNT,
        "testCase": _object({"vars": _ANY_OBJECT, "assert": _list(_object({"type": _TEXT}))}),
        "promptId": _TEXT,
        "provider": _object({"id": _TEXT}),
        "prompt": _PROMPT,
        "vars": _ANY_OBJECT,
        "response": _object({"output": _TEXT}),
        "failureReason": {"enum": [0, 1, 2]},
        "success": _BOOL,
        "score": _NUMBER,
        "latencyMs": _NUMBER,
        "gradingResult": {"anyOf": [_GRADING, {"type": "null"}]},
        "namedScores": {"type": "object", "additionalProperties": _NUMBER},
        "tokenUsage": _TOKENS,
    },
    error={"type": ["string", "null"]},
)
_METRICS = _object(
    dict.fromkeys(
        (
            "score",
            "testPassCount",
            "testFailCount",
            "testErrorCount",
            "assertPassCount",
            "assertFailCount",
            "totalLatencyMs",
            "cost",
        ),
        _NUMBER,
    )
    | {"tokenUsage": _ANY_OBJECT, "namedScores": _ANY_OBJECT, "namedScoresCount": _ANY_OBJECT}
)
PROMPTFOO_FILE = _object(
    {
        "evalId": _TEXT,
        "results": _object(
            {
                "version": {"const": 3},
                "timestamp": _TEXT,
                "results": _list(_RESULT),
                "prompts": _list(_object({"raw": _TEXT, "label": _TEXT, "provider": _TEXT, "metrics": _METRICS})),
                "stats": _object({"successes": _COUNT, "failures": _COUNT, "errors": _COUNT, "tokenUsage": _TOKENS}),
            }
        ),
        "config": _object({"providers": _list(_ANY_OBJECT), "prompts": _list(_TEXT)}),
        "shareableUrl": {"type": ["string", "null"]},
    }
)

# inspect_ai: EvalLog, version 2
_MESSAGE = _object({"role": {"enum": ["system", "user", "assistant", "tool"]}, "content": _TEXT})
_USAGE = _object(dict.fromkeys(("input_tokens", "output_tokens", "total_tokens"), _COUNT))
_STOP = {"enum": ["stop", "max_tokens", "model_length", "tool_calls", "content_filter", "unknown"]}
_SCORE = _object({"value": {"type": ["string", "number", "boolean"]}}, answer=_TEXT, explanation=_TEXT)
_SAMPLE = _object(
    {
        "id": {"type": ["string", "integer"]},
        "epoch": {"type": "integer", "minimum": 1},
        "input": {"anyOf": [_TEXT, _list(_MESSAGE)]},
        "target": {"anyOf": [_TEXT, _list(_TEXT)]},
        "messages": _list(_MESSAGE),
        "output": _object(
            {"model": _TEXT, "choices": _list(_object({"message": _MESSAGE, "stop_reason": _STOP})), "usage": _USAGE}
        ),
        "scores": {"type": "object", "additionalProperties": _SCORE},
        "metadata": _ANY_OBJECT,
        "model_usage": {"type": "object", "additionalProperties": _USAGE},
    },
    error=_object({"message": _TEXT, "traceback": _TEXT, "traceback_ansi": _TEXT}),
)
_METRIC = _object({"name": _TEXT, "value": _NUMBER})
INSPECT_LOG = _object(
    {
        "version": {"const": 2},
        "status": {"enum": ["started", "success", "cancelled", "error"]},
        "eval": _object(
            {
                "created": _TEXT,
                "task": _TEXT,
                "dataset": _object({"samples": _COUNT, "sample_ids": _list(_TEXT)}),
                "model": _TEXT,
                "config": _object({"epochs": _COUNT}),
            }
        ),
        "plan": _object({"name": _TEXT, "steps": _list(_object({"solver": _TEXT, "params": _ANY_OBJECT}))}),
        "results": _object(
            {
                "total_samples": _COUNT,
                "completed_samples": _COUNT,
                "scores": _list(
                    _object(
                        {
                            "name": _TEXT,
                            "scorer": _TEXT,
                            "metrics": {"type": "object", "additionalProperties": _METRIC},
                        }
                    )
                ),
            }
        ),
        "stats": _object({"started_at": _TEXT, "completed_at": _TEXT, "model_usage": _ANY_OBJECT}),
        "samples": _list(_SAMPLE),
    }
)
