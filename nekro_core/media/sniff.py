"""Recognizes a file's type by its first bytes, because names and declared types may be false."""

from typing import Final

HEAD = 4096
"""The first bytes of a file, up to this number, are enough to recognize its type."""

OCTETS: Final = ("application/octet-stream", "bin")

_SIGNS: Final = (
    (0, b"\x89PNG\r\n\x1a\n", "image/png", "png"),
    (0, b"\xff\xd8\xff", "image/jpeg", "jpg"),
    (0, b"GIF87a", "image/gif", "gif"),
    (0, b"GIF89a", "image/gif", "gif"),
    (8, b"WEBP", "image/webp", "webp"),
    (0, b"BM", "image/bmp", "bmp"),
    (8, b"WAVE", "audio/wav", "wav"),
    (8, b"AVI ", "video/x-msvideo", "avi"),
    (0, b"ID3", "audio/mpeg", "mp3"),
    (0, b"OggS", "audio/ogg", "ogg"),
    (0, b"fLaC", "audio/flac", "flac"),
    (0, b"#!AMR", "audio/amr", "amr"),
    (0, b"\xff\xf1", "audio/aac", "aac"),
    (0, b"\xff\xf9", "audio/aac", "aac"),
    (0, b"\x02#!SILK_V3", "audio/silk", "silk"),
    (0, b"#!SILK_V3", "audio/silk", "silk"),
    (4, b"ftypM4A", "audio/mp4", "m4a"),
    (4, b"ftyp3g", "video/3gpp", "3gp"),
    (4, b"ftypavif", "image/avif", "avif"),
    (4, b"ftypheic", "image/heic", "heic"),
    (4, b"ftyp", "video/mp4", "mp4"),
    (0, b"\x1aE\xdf\xa3", "video/webm", "webm"),
    (0, b"%PDF-", "application/pdf", "pdf"),
    (0, b"PK\x03\x04", "application/zip", "zip"),
    (0, b"\x1f\x8b", "application/gzip", "gz"),
    (0, b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed", "7z"),
    (0, b"Rar!\x1a\x07", "application/vnd.rar", "rar"),
)
_RIFF = frozenset({"image/webp", "audio/wav", "video/x-msvideo"})
_SVG = (b"<svg ", b"<svg>", b"<svg/", b"<svg\n", b"<svg\r", b"<svg\t")
_PROLOG = ((b"<?xml", b"?>"), (b"<!--", b"-->"), (b"<!doctype svg", b">"))
"""What may stand before the element ``svg`` of an SVG file. Each pair has the text with which such
a part begins, and the text with which it ends."""
_MARKUP = (
    (b"<!doctype html", "text/html", "html"),
    (b"<html", "text/html", "html"),
    (b"<head", "text/html", "html"),
    (b"<script", "text/html", "html"),
    (b"<?xml", "text/xml", "xml"),
)


def sniff(head: bytes) -> tuple[str, str]:
    """Return the media type and the file extension for the first bytes of a file."""
    for offset, sign, mime, extension in _SIGNS:
        if head.startswith(sign, offset) and (mime not in _RIFF or head.startswith(b"RIFF")):
            if mime == "video/webm" and _holds_sound_alone(head):
                return "audio/webm", "weba"
            return mime, extension
    # This is an MPEG audio frame, layer 3.
    if len(head) > 1 and head[0] == 0xFF and head[1] & 0xE6 == 0xE2:
        return "audio/mpeg", "mp3"
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:2048].lower()
    if _after_prolog(start).startswith(_SVG):
        return "image/svg+xml", "svg"
    for sign, mime, extension in _MARKUP:
        if start.startswith(sign):
            return mime, extension
    return ("text/plain", "txt") if _is_text(head) else OCTETS


def _after_prolog(text: bytes) -> bytes:
    """Return the text from the first element of an XML file on. Returns no bytes if the file has no
    element here."""
    while text:
        end = next((end for begin, end in _PROLOG if text.startswith(begin)), None)
        if end is None:
            return text
        text = text.partition(end)[2].lstrip()
    return text


def _holds_sound_alone(head: bytes) -> bool:
    """Return True if a WebM file has a sound track and no video track. Browsers record voices in
    such files."""
    return any(name in head for name in (b"A_OPUS", b"A_VORBIS")) and b"V_" not in head


def claimed_kind(name: str) -> str:
    """Return ``image``, ``audio`` or ``video`` if the file extension says so, else ``""``."""
    return _ENDINGS.get(name.rpartition(".")[2].lower(), "") if "." in name else ""


def _is_text(head: bytes) -> bool:
    if not head or b"\0" in head:
        return False
    try:
        head.decode()
    except UnicodeDecodeError as error:
        # ``head`` may end inside a character.
        return len(head) >= HEAD and error.start >= len(head) - 3
    return True


_ENDINGS = {
    **dict.fromkeys(("png", "jpg", "jpeg", "gif", "webp", "bmp"), "image"),
    **dict.fromkeys(
        ("wav", "mp3", "ogg", "flac", "amr", "silk", "m4a", "aac", "opus", "oga"), "audio"
    ),
    **dict.fromkeys(("mp4", "webm", "avi"), "video"),
}
