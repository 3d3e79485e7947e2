"""Copies outgoing media into the media store, so that they still exist if their message is sent
later. Then converts them to the limits of the platform."""

import msgspec

from nekro_core.chat import (
    ChatKey,
    File,
    Forward,
    ForwardedMessage,
    Image,
    Segment,
    Segments,
    Video,
    Voice,
    every_segment,
)
from nekro_core.delivery.adapter import Adapter
from nekro_core.delivery.media.fetch_policy import public_internet
from nekro_core.delivery.media.fitter import MediaFitter
from nekro_core.delivery.media.store import MediaStore


async def ready_media(
    media: MediaStore,
    fitting: MediaFitter | None,
    chat_key: ChatKey,
    segments: Segments,
    adapter: Adapter | None,
) -> Segments | None:
    """Store the media of the segments and convert them to the limits of the platform. Returns None
    if the segments have no media."""
    kept = await keep_media(media, chat_key, segments)
    if fitting is None or adapter is None or kept is None:
        return kept
    return await fitting.fit(chat_key, kept, adapter.capabilities(chat_key)) or kept


async def keep_media(media: MediaStore, chat_key: ChatKey, segments: Segments) -> Segments | None:
    """Copy the media of the segments into the chat's uploads folder. Returns None if there are no
    media. A medium that cannot be copied gets a ``problem``, and `split` puts it into a separate
    piece."""
    if not any(isinstance(each, Image | Voice | Video | File) for each in every_segment(segments)):
        return None
    return tuple([await _keep(media, chat_key, segment) for segment in segments])


async def _keep(media: MediaStore, chat_key: ChatKey, segment: Segment) -> Segment:
    if isinstance(segment, Forward):
        messages = [await _keep_forwarded(media, chat_key, each) for each in segment.messages]
        return Forward(tuple(messages))
    if not isinstance(segment, Image | Voice | Video | File) or segment.media.problem:
        return segment
    found = segment.media
    if found.path:
        copy = await media.keep_file(chat_key, found)
    elif found.url:
        # A plugin chose this URL. `AgentCtx.send` has already fetched the URLs that a chat's code
        # named, if their hosts are allowed.
        copy = await media.keep_url(
            chat_key, found.url, name=found.name, expect="file", reach=public_internet()
        )
    else:
        copy = msgspec.structs.replace(found, problem="it has neither a path nor a URL")
    return msgspec.structs.replace(segment, media=copy)


async def _keep_forwarded(
    media: MediaStore, chat_key: ChatKey, message: ForwardedMessage
) -> ForwardedMessage:
    kept = await keep_media(media, chat_key, message.segments)
    return message if kept is None else msgspec.structs.replace(message, segments=kept)
