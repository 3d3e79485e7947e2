"""The segments of a message that a plugin sends."""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict


class AgentMessageSegmentType(StrEnum):
    """The kinds of segments that a plugin can send."""

    TEXT = "text"
    IMAGE = "image"
    FILE = "file"


class AgentMessageSegment(BaseModel):
    """One segment of a message that a plugin sends.

    Attributes:
        type: ``text``, ``image`` or ``file``.
        content: For ``text`` a text, in which ``[@id:10001@]`` is a mention. For ``image`` and
            ``file`` a path in the box, a URL, or the path of a file of the plugin.
    """

    model_config = ConfigDict(use_enum_values=True)

    type: AgentMessageSegmentType = AgentMessageSegmentType.TEXT
    content: str = ""

    def format(self) -> str:
        """Convert the segment to text.

        Returns:
            The text, or ``<image: ...>`` and ``<file: ...>``.
        """
        return self.content if self.type == "text" else f"<{self.type}: {self.content}>"


MessageContent = str | list[AgentMessageSegment]
"""A text, or a list of segments."""


def pieces_of(content: MessageContent) -> list[AgentMessageSegment]:
    """The segments of a message. A text becomes one segment."""
    if isinstance(content, str):
        return [AgentMessageSegment(type=AgentMessageSegmentType.TEXT, content=content)]
    return list(content)
