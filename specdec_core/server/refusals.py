"""What is answered instead of a text: OpenAI's error object, with the HTTP status it goes with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from specdec_core.errors import ContextOverflowError, OutOfMemoryError, RequestError

__all__ = ["JsonAnswer", "Refusal", "refusal_of", "to_json"]


class Refusal(Exception):
    """A request that is not served. ``param`` names the field that is wrong, as the client spells it."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.param, self.code = status, message, param, code
        self.headers = dict(headers or {})

    def to_dict(self) -> dict[str, Any]:
        """The body of the answer.

        >>> Refusal(400, "n: at most 1", param="n").to_dict()["error"]["type"]
        'invalid_request_error'
        """
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}

    def answer(self) -> JsonAnswer:
        """The whole HTTP answer."""
        return JsonAnswer(self.to_dict(), self.status, self.headers)


class JsonAnswer(Response):
    """A JSON document in ASCII, so that no character in it, half a surrogate pair neither, can break the answer."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """The body."""
        return to_json(content)


def to_json(value: Any) -> bytes:
    """One line of ASCII; line breaks of every alphabet are escaped, so it may be an event of a stream.

    >>> to_json({"text": "a\\u2028b"})
    b'{"text":"a\\\\u2028b"}'
    """
    return json.dumps(value, separators=(",", ":")).encode()


def refusal_of(error: BaseException, params: Mapping[str, str]) -> Refusal:
    """What a client is told of an error of the engine: the request's own faults by name, others without details.

    Args:
        params: The core's names of fields -> the client's, where they differ.
    """
    if isinstance(error, Refusal):
        return error
    if isinstance(error, RequestError):
        param = params.get(error.field, error.field) if error.field else None
        code = "context_length_exceeded" if isinstance(error, ContextOverflowError) else None
        return Refusal(400, str(error), param=param, code=code)
    if isinstance(error, OutOfMemoryError):
        return Refusal(500, str(error), code="out_of_memory")
    return Refusal(500, "internal error: the server's log has the details", code="internal_error")
