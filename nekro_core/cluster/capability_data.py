"""Turns the capabilities of an adapter into data that a gateway can send to a worker, and back."""

from collections.abc import Callable

import msgspec

from nekro_core.chat import File, Forward, Image, Mention, Reply, Text, Video, Voice
from nekro_core.cluster.errors import ClusterError
from nekro_core.delivery.adapter import BundleLimits, Capabilities
from nekro_core.media.limits import PictureLimits, VoiceLimits

_TYPES: dict[str, type] = {
    each.__name__: each for each in (Text, Mention, Reply, Image, Voice, Video, File, Forward)
}
"""The segment types that `Capabilities` may name."""
_MEASURES: dict[str, Callable[[str], int]] = {
    "characters": len,
    "utf16": lambda text: len(text.encode("utf-16-le")) // 2,
    "utf8": lambda text: len(text.encode()),
}
"""The functions with which platforms measure the length of a text, by name."""
_SAMPLES = ("", "a", "é", "字", "😀", "a字😀")


class CannotBeSent(ClusterError):
    """A capability of an adapter cannot be sent to another process, or the other process does not
    know it."""


class CapabilityData(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of `Capabilities`, in the form in which they are sent. Segment types and the
    function that measures texts are given by their names."""

    inline: frozenset[str]
    alone: frozenset[str]
    text_length: int
    caption_length: int | None
    measure: str
    images_per_call: int
    edit_every_s: float | None
    typing_s: float | None
    reactions: bool
    voice: VoiceLimits | None
    picture: PictureLimits | None
    file_bytes: int | None
    markdown: bool
    bundle: BundleLimits

    @classmethod
    def of(cls, can: Capabilities) -> "CapabilityData":
        """Return the data for an adapter's capabilities. Raises `CannotBeSent`."""
        return cls(
            inline=frozenset(each.__name__ for each in can.inline),
            alone=frozenset(each.__name__ for each in can.alone),
            text_length=can.text_length,
            caption_length=can.caption_length,
            measure=_measure_name(can.measure),
            images_per_call=can.images_per_call,
            edit_every_s=can.edit_every_s,
            typing_s=can.typing_s,
            reactions=can.reactions,
            voice=can.voice,
            picture=can.picture,
            file_bytes=can.file_bytes,
            markdown=can.markdown,
            bundle=can.bundle,
        )

    def capabilities(self) -> Capabilities:
        """Return the capabilities. A segment type that this version does not know is left out.
        Raises `CannotBeSent`."""
        if self.measure not in _MEASURES:
            raise CannotBeSent(f"texts are measured in {self.measure!r}, which is not known here")
        return Capabilities(
            inline=frozenset(_TYPES[name] for name in self.inline if name in _TYPES),
            alone=frozenset(_TYPES[name] for name in self.alone if name in _TYPES),
            text_length=self.text_length,
            caption_length=self.caption_length,
            measure=_MEASURES[self.measure],
            images_per_call=self.images_per_call,
            edit_every_s=self.edit_every_s,
            typing_s=self.typing_s,
            reactions=self.reactions,
            voice=self.voice,
            picture=self.picture,
            file_bytes=self.file_bytes,
            markdown=self.markdown,
            bundle=self.bundle,
        )


def _measure_name(measure: Callable[[str], int]) -> str:
    """Return the name of a function that measures texts. A function that is not in `_MEASURES` is
    recognized by its results for some sample texts."""
    for name, known in _MEASURES.items():
        if measure is known or all(measure(text) == known(text) for text in _SAMPLES):
            return name
    raise CannotBeSent(
        "the adapter counts the characters of a text in a way that a worker does not know; known "
        f"are {', '.join(_MEASURES)}"
    )
