"""Handles pictures and other media in a tool's result: gives each medium an index, which the text
names, and makes content parts for the model.

The answer to a call cannot contain a picture. So its text contains an index
(``tool_result:<call>:<place>``), and a later message shows the picture after the same index.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from nekro_core.tools.content import Content, TextContent


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultMedia:
    """One medium in a result. ``place`` is its number among all items of the result, including
    texts, counted from 1. ``content`` is the content part that the model gets; None if models do
    not accept the medium. ``note`` describes the medium in words. The argument ``call`` of the
    functions in this file is a text that identifies the call that had the result."""

    place: int
    type: str
    mime: str = ""
    name: str = ""
    note: str = ""
    content: Content | None = None

    def index(self, call: str) -> str:
        """Get the index of the medium."""
        return f"tool_result:{call}:{self.place}"

    def tag(self, element: str, call: str) -> str:
        """Make the XML-like element that stands for the medium in a text."""
        known = {"type": self.type, "mime": self.mime, "name": self.name}
        shown = "".join(f' {key}="{escape(text)}"' for key, text in known.items() if text)
        return f'<{element} msg_id="{self.index(call)}"{shown} />'


def indexed_text(text: str, media: Sequence[ResultMedia], call: str) -> str:
    """Get the text of a result with the list of its media at the end."""
    tags = "\n".join(f"  {each.tag('media', call)}" for each in media)
    listed = f"<tool_result_media_list>\n{tags}\n</tool_result_media_list>"
    return f"{text}\n\n{listed}" if text else listed


def media_content(media: Sequence[ResultMedia], call: str) -> tuple[Content, ...]:
    """Get the content parts for the model. Each medium follows a text with its index."""
    shown: list[Content] = []
    for each in media:
        lines = [each.tag("tool_result_media", call), each.note]
        shown.append(TextContent("\n".join(filter(None, lines))))
        if each.content is not None:
            shown.append(each.content)
    return tuple(shown)
