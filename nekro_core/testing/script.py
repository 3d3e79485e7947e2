"""Scripts the model's replies in a test, and records its requests."""

from collections import deque
from collections.abc import Iterable

from nekro_core.llm.model import ChatRequest, RequestRejected, TextPart
from nekro_core.llm.scripted import ScriptedModel, ScriptedReply


class Script:
    """Gives replies in order. A request without a reply is refused, and kept in ``unforeseen``."""

    def __init__(self) -> None:
        self.model = ScriptedModel(self._next)
        self.unforeseen: list[ChatRequest] = []
        self._replies: deque[ScriptedReply] = deque()

    def foresee(self, replies: Iterable[ScriptedReply]) -> None:
        """Say these to the next requests."""
        self._replies.extend(replies)

    def clear(self) -> int:
        """Forget the replies that nobody asked for; how many they were."""
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
    """A reply of code alone."""
    return f"```python\n{code}\n```"


def words_of(request: ChatRequest) -> str:
    """All the words that a request shows the model."""
    return "\n\n".join(
        part.text
        for message in request.messages
        for part in message.parts
        if isinstance(part, TextPart)
    )


def newest_words(request: ChatRequest) -> str:
    """The words of its last message: what happened just before."""
    last = request.messages[-1]
    return "\n".join(part.text for part in last.parts if isinstance(part, TextPart))
