"""Handles pictures and other media in a tool's result: an index for the text, and parts for the
model.

The answer to a call cannot hold a picture. So its text names an index
(``tool_result:<call>:<place>``), and a later message shows the picture with the same index.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from nekro_core.tools.content import Content, TextContent


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultMedia:
    """One medium. ``place`` counts all items of the result from 1, including texts. ``content`` is
    the part for the model, if there is one; ``note`` describes the medium in text."""

    place: int
    type: str
    mime: str = ""
    name: str = ""
    note: str = ""
    content: Content | None = None

    def index(self, call: str) -> str:
        """The index that names the medium."""
        return f"tool_result:{call}:{self.place}"

    def tag(self, element: str, call: str) -> str:
        """The XML-like element that stands for the medium in a text."""
        known = {"type": self.type, "mime": self.mime, "name": self.name}
        shown = "".join(f' {key}="{escape(text)}"' for key, text in known.items() if text)
        return f'<{element} msg_id="{self.index(call)}"{shown} />'


def indexed_text(text: str, media: Sequence[ResultMedia], call: str) -> str:
    """The text of a result, followed by the list of its media."""
    tags = "\n".join(f"  {each.tag('media', call)}" for each in media)
    listed = f"<tool_result_media_list>\n{tags}\n</tool_result_media_list>"
    return f"{text}\n\n{listed}" if text else listed


def media_content(media: Sequence[ResultMedia], call: str) -> tuple[Content, ...]:
    """The parts for the model, each after the index that the text uses for it."""
    shown: list[Content] = []
    for each in media:
        lines = [each.tag("tool_result_media", call), each.note]
        shown.append(TextContent("\n".join(filter(None, lines))))
        if each.content is not None:
            shown.append(each.content)
    return tuple(shown)
