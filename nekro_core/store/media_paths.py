"""Translates the paths of media that another process has stored.

A stored message has the absolute paths of its media, as ``FOLDER/uploads/CHAT/NAME``. If several
processes share a database, each has a data folder of its own. A process then reads the same medium
as ``OWN FOLDER/uploads/CHAT/NAME``.
"""

import re
from pathlib import Path

import msgspec

from nekro_core.chat import File, Forward, Image, Media, Segment, Segments, Video, Voice

MEDIUM = re.compile(
    r"/uploads/(?P<chat>[0-9a-z%._~-]{1,121})/(?P<name>[0-9a-f]{32}\.[a-z0-9]{1,5})\Z"
)
"""The end of the path of a medium. The bot computes both names, so they are safe parts of a
path."""


class MediaPaths:
    """Translates the paths in the segments of one process. Until ``folder`` is set, to the folder
    ``uploads`` of the process, nothing is translated."""

    def __init__(self) -> None:
        self.folder: Path | None = None

    def here(self, segments: Segments) -> Segments:
        """Return the segments with the paths that their media have in this process."""
        if self.folder is None:
            return segments
        return tuple([self._segment(each) for each in segments])

    def _segment(self, segment: Segment) -> Segment:
        match segment:
            case Image() | Voice() | Video() | File():
                medium = self._medium(segment.media)
                if medium is segment.media:
                    return segment
                return msgspec.structs.replace(segment, media=medium)
            case Forward():
                messages = [
                    msgspec.structs.replace(each, segments=self.here(each.segments))
                    for each in segment.messages
                ]
                return Forward(tuple(messages))
            case _:
                return segment

    def _medium(self, medium: Media) -> Media:
        found = MEDIUM.search(medium.path)
        if found is None:
            return medium
        path = f"{self.folder}/{found['chat']}/{found['name']}"
        return medium if path == medium.path else msgspec.structs.replace(medium, path=path)
