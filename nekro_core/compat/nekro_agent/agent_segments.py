"""The pieces of a message that a plugin sends."""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict


class AgentMessageSegmentType(StrEnum):
    """The kinds of pieces."""

    TEXT = "text"
    IMAGE = "image"
    FILE = "file"


class AgentMessageSegment(BaseModel):
    """One piece of what a plugin sends.

    Attributes:
        type: ``text``, ``image`` or ``file``.
        content: A text, in which ``[@id:10001@]`` mentions somebody; or where the picture or file
            is: a path in the box, a URL or a file of the plugin's own.
    """

    model_config = ConfigDict(use_enum_values=True)

    type: AgentMessageSegmentType = AgentMessageSegmentType.TEXT
    content: str = ""

    def format(self) -> str:
        """Write the piece as a person reads it.

        Returns:
            The text, or ``<image: ...>`` and ``<file: ...>``.
        """
        return self.content if self.type == "text" else f"<{self.type}: {self.content}>"


MessageContent = str | list[AgentMessageSegment]
"""A text, or several pieces."""


def pieces_of(content: MessageContent) -> list[AgentMessageSegment]:
    """The pieces of a message. A text becomes one piece."""
    if isinstance(content, str):
        return [AgentMessageSegment(type=AgentMessageSegmentType.TEXT, content=content)]
    return list(content)
