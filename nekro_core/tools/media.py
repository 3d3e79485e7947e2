"""Pictures and other media in what a tool returned: an index for the words, and what to show.

No answer to a call can hold a picture, so it is told of by an index
(``tool_result:<call>:<place>``) and shown in a message that names the same index.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from nekro_core.tools.content import Content, TextContent


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultMedia:
    """One medium. ``place`` counts all items of the result from 1, words included. ``content`` is
    what can be shown of it, if anything; ``note`` is told in words."""

    place: int
    type: str
    mime: str = ""
    name: str = ""
    note: str = ""
    content: Content | None = None

    def index(self, call: str) -> str:
        """How it is named from now on."""
        return f"tool_result:{call}:{self.place}"

    def tag(self, element: str, call: str) -> str:
        """The element that stands for it in a text."""
        known = {"type": self.type, "mime": self.mime, "name": self.name}
        shown = "".join(f' {key}="{escape(text)}"' for key, text in known.items() if text)
        return f'<{element} msg_id="{self.index(call)}"{shown} />'


def indexed_text(text: str, media: Sequence[ResultMedia], call: str) -> str:
    """The words of a result, with the list of its media below."""
    tags = "\n".join(f"  {each.tag('media', call)}" for each in media)
    listed = f"<tool_result_media_list>\n{tags}\n</tool_result_media_list>"
    return f"{text}\n\n{listed}" if text else listed


def media_content(media: Sequence[ResultMedia], call: str) -> tuple[Content, ...]:
    """What the model sees or hears, each behind the name that the words use for it."""
    shown: list[Content] = []
    for each in media:
        lines = [each.tag("tool_result_media", call), each.note]
        shown.append(TextContent("\n".join(filter(None, lines))))
        if each.content is not None:
            shown.append(each.content)
    return tuple(shown)
