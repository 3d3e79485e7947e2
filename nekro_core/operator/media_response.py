"""Serves pictures, voices and files so that a browser shows or plays them, but never runs them."""

import re
from urllib.parse import quote

from starlette.responses import Response

from nekro_core.chat import Media

SHOWN = frozenset(
    {
        "image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp", "image/avif",
        "audio/wav", "audio/x-wav", "audio/mpeg", "audio/ogg", "audio/flac", "audio/mp4",
        "audio/aac", "audio/webm", "audio/amr", "video/mp4", "video/webm", "video/ogg",
    }
)  # fmt: skip
"""MIME types that the browser may show in the page. All others are only downloaded, because HTML,
SVG and other types can contain scripts."""
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})\Z")


def media_response(media: Media, data: bytes, range_header: str) -> Response:
    """Make the answer with the whole medium or one requested range (RFC 9110, section 14).

    Args:
        media: The medium.
        data: Its bytes.
        range_header: The request's ``Range``; empty if it has none.

    Returns:
        The answer. Only a type of `SHOWN` is shown by the browser; all others are downloaded.
    """
    inline = media.mime in SHOWN
    headers = {
        "Content-Disposition": _disposition("inline" if inline else "attachment", media.name),
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "X-Content-Type-Options": "nosniff",
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


def _disposition(kind: str, name: str) -> str:
    """Return the value of the header ``Content-Disposition`` (RFC 6266). The file's name is encoded
    (RFC 8187), so it cannot add parameters or headers."""
    return f"{kind}; filename*=UTF-8''{quote(name, safe='', errors='replace')}" if name else kind
