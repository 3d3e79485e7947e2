"""Gives a simulated model its replies in a test, and records the requests to it."""

from collections import deque
from collections.abc import Iterable

from nekro_core.llm.model import ChatRequest, RequestRejected, TextPart
from nekro_core.llm.scripted import ScriptedModel, ScriptedReply


class Script:
    """Gives the replies to the model's requests in order. If no reply is left, the request is
    rejected and stored in ``unforeseen``."""

    def __init__(self) -> None:
        self.model = ScriptedModel(self._next)
        self.unforeseen: list[ChatRequest] = []
        self._replies: deque[ScriptedReply] = deque()

    def foresee(self, replies: Iterable[ScriptedReply]) -> None:
        """Add replies. Each request to the model uses the next reply."""
        self._replies.extend(replies)

    def clear(self) -> int:
        """Delete the replies that no request used, and the unforeseen requests. Returns the number
        of deleted replies."""
        left = len(self._replies)
        self._replies.clear()
        self.unforeseen.clear()
        return left

    def _next(self, request: ChatRequest) -> ScriptedReply:
        if self._replies:
            return self._replies.popleft()
        self.unforeseen.append(request)
        return RequestRejected("the test has no reply for this request")


def fenced(code: str) -> str:
    """Return a reply that contains only this code."""
    return f"```python\n{code}\n```"


def words_of(request: ChatRequest) -> str:
    """Return all text in a request to the model."""
    return "\n\n".join(
        part.text
        for message in request.messages
        for part in message.parts
        if isinstance(part, TextPart)
    )


def newest_words(request: ChatRequest) -> str:
    """Return the text of the last message of a request. This message says what happened just before
    the request."""
    last = request.messages[-1]
    return "\n".join(part.text for part in last.parts if isinstance(part, TextPart))
