"""Finds the pictures, voices and files of messages."""

from nekro_core.api.adapter import Host, OperatorHost
from nekro_core.api.chat import ChatKey, File, Image, Media, Segments, Video, Voice
from nekro_core.api.console import WebApiError


async def find_media(
    host: Host, operator: OperatorHost, key: ChatKey, seq: int, index: int
) -> tuple[Media, bytes]:
    """Return the medium that is segment ``index`` of record ``seq``, and its bytes. Raises
    `WebApiError`.

    The file's path comes from the record, never from the request.
    """
    missing = WebApiError(404, "media", "no such picture, voice or file in this room")
    records = await host.records(key, after=seq - 1, limit=1) if seq > 1 else []
    if seq == 1:
        # ``after=seq - 1`` would be 0 here, which returns the newest records. So record 1 is
        # searched among the newest 1,000.
        records = [r for r in await host.records(key, limit=1000) if r.seq == 1]
    if not records or records[0].seq != seq or records[0].recalled:
        raise missing
    media = _at(records[0].segments, index)
    if media is None or not media.path:
        raise missing
    data = await operator.media.read(key, media.path)
    if data is None:
        raise missing
    return media, data


def _at(segments: Segments, index: int) -> Media | None:
    if not 0 <= index < len(segments):
        return None
    segment = segments[index]
    return segment.media if isinstance(segment, Image | Voice | Video | File) else None
