"""Decodes the attachments of a post and chooses their segments."""

import base64
import binascii
import re

from pydantic import BaseModel, ConfigDict, Field

from nekro_core.api.chat import File, Image, Media, Segment, Video, Voice
from nekro_core.api.console import WebApiError


class Attachment(BaseModel):
    """A picture or file in the JSON body of a post."""

    model_config = ConfigDict(extra="forbid")

    data: str
    """The bytes of the file, in base64."""
    name: str = Field("", max_length=255)


class Upload(BaseModel):
    """The bytes of an attachment, from a JSON body or from a form."""

    data: bytes
    name: str


def decoded(attachment: Attachment) -> Upload:
    """Decode an attachment. Raises `WebApiError`."""
    try:
        data = base64.b64decode(attachment.data, validate=True)
    except (binascii.Error, ValueError):
        raise WebApiError(422, "attachment", "an attachment's 'data' is not base64") from None
    return Upload(data=data, name=uploaded_name(attachment.name))


def uploaded_name(text: str) -> str:
    """Return the last part of a path without unprintable characters, as the file's name."""
    last = re.split(r"[/\\]", text)[-1]
    printable = "".join(character for character in last if character.isprintable())
    return printable[:255] if printable.strip(". ") else ""


def segment_of(media: Media) -> Segment:
    """Return the segment for a stored medium. Its detected MIME type decides."""
    match media.mime.partition("/")[0]:
        case "image" if media.mime != "image/svg+xml":
            return Image(media)
        case "audio":
            return Voice(media)
        case "video":
            return Video(media)
        case _:
            return File(media)
