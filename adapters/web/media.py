"""Serves pictures, voices and files so that a browser shows or plays them, but never runs them."""

import re
from urllib.parse import quote

from starlette.responses import Response

from nekro_core.api.adapter import Host, OperatorHost
from nekro_core.api.chat import ChatKey, File, Image, Media, Segments, Video, Voice
from nekro_core.api.console import WebApiError

SHOWN = frozenset(
    {
        "image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp", "image/avif",
        "audio/wav", "audio/x-wav", "audio/mpeg", "audio/ogg", "audio/flac", "audio/mp4",
        "audio/aac", "audio/webm", "audio/amr", "video/mp4", "video/webm", "video/ogg",
    }
)  # fmt: skip
"""MIME types that the browser may show in the page. All others are only downloaded, because HTML,
SVG and other types can contain scripts."""
_RANGE = re.compile(r"bytes=(\d*)-(\d*)\Z")


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


def media_response(media: Media, data: bytes, range_header: str) -> Response:
    """Return the whole medium or one requested range (RFC 9110, section 14)."""
    inline = media.mime in SHOWN
    headers = {
        "Content-Disposition": _disposition("inline" if inline else "attachment", media.name),
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "Cache-Control": "private, max-age=86400, immutable",
        "Accept-Ranges": "bytes",
    }
    mime = media.mime if inline else "application/octet-stream"
    match = _RANGE.match(range_header)
    if match is None or match[0] == "bytes=-":
        return Response(data, media_type=mime, headers=headers)
    first = int(match[1]) if match[1] else max(0, len(data) - int(match[2]))
    last = min(int(match[2]) if match[1] and match[2] else len(data) - 1, len(data) - 1)
    if first > last:
        return Response(status_code=416, headers={"Content-Range": f"bytes */{len(data)}"})
    headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
    return Response(data[first : last + 1], 206, media_type=mime, headers=headers)


def _at(segments: Segments, index: int) -> Media | None:
    if not 0 <= index < len(segments):
        return None
    segment = segments[index]
    return segment.media if isinstance(segment, Image | Voice | Video | File) else None


def _disposition(kind: str, name: str) -> str:
    """Return the header's value (RFC 6266). The name is encoded (RFC 8187), so it cannot add
    fields."""
    return f"{kind}; filename*=UTF-8''{quote(name, safe='')}" if name else kind
