"""What plugins made of messages that arrived."""

from collections import OrderedDict

_MOST_CHANGED = 200


class ChangedMessages:
    """What plugins made of messages: what was stored is what was said, so the model is told."""

    def __init__(self) -> None:
        self._texts: OrderedDict[tuple[str, str], str] = OrderedDict()

    def put(self, stream_id: str, message_id: str, text: str) -> None:
        """Keep it; the oldest goes."""
        self._texts[stream_id, message_id] = text
        while len(self._texts) > _MOST_CHANGED:
            self._texts.popitem(last=False)

    def told(self, stream_id: str) -> str:
        """The lines for a prompt."""
        lines = [
            f"Message {number} is to be read as: {text}"
            for (stream, number), text in self._texts.items()
            if stream == stream_id
        ]
        return "\n".join(lines[-10:])
