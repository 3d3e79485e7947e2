"""Carries the media of outgoing messages from a worker to a gateway, through the object store."""

import re
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import msgspec
from anyio import to_thread
from loguru import logger

from nekro_core.chat import File, Forward, Image, Media, Segment, Segments, Video, Voice
from nekro_core.cluster.errors import ClusterError
from nekro_core.cluster.objects import ObjectStore
from nekro_core.system.errors import NekroError

OUTGOING = "outgoing/"
"""The beginning of the names of outgoing media."""
_ENDING = re.compile(r"\.[A-Za-z0-9]{1,5}\Z")
_DELETE_S = 5.0
"""Time limit in seconds for deleting the copies of media after a delivery. The next message of the
chat waits for it."""
_MOST_MEDIA = 200
"""Maximum number of media in one delivery. A bundle has at most 100 messages."""


class MediaNotCarried(NekroError):
    """A medium of a delivery cannot be fetched: its path in the request is not the name of an
    outgoing object, or the delivery has too many media."""


@asynccontextmanager
async def uploaded(objects: ObjectStore, segments: Segments) -> AsyncIterator[Segments]:
    """Put the files of all media into the object store. They are deleted from it when the block
    ends. Yields the segments with names of objects in place of paths. Raises `ClusterError` and
    `OSError`."""
    folder, names = f"{OUTGOING}{uuid.uuid4().hex}", list[str]()

    async def put(media: Media) -> Media:
        ending = _ENDING.search(media.path)
        name = f"{folder}/{len(names)}{ending.group() if ending else ''}"
        names.append(name)
        await objects.put(name, Path(media.path))
        return msgspec.structs.replace(media, path=name)

    try:
        yield await _with_media(segments, put)
    finally:
        with anyio.move_on_after(_DELETE_S, shield=True):
            for name in names:
                try:
                    await objects.delete(name)
                except (ClusterError, OSError) as error:
                    logger.warning("the object {} is not deleted: {}", name, error)


@asynccontextmanager
async def downloaded(
    objects: ObjectStore, segments: Segments, scratch: Path
) -> AsyncIterator[Segments]:
    """Fetch the files of all media from the object store into a new folder in ``scratch``. The
    files are deleted when the block ends. Yields the segments with the paths of these files. A path
    in the request that is not the name of an outgoing object is refused. Otherwise a worker could
    have any file of this machine sent to a chat. Raises `MediaNotCarried`, `ClusterError` and
    `OSError`."""
    folder, fetched = scratch / uuid.uuid4().hex, list[Path]()

    async def fetch(media: Media) -> Media:
        if not media.path.startswith(OUTGOING):
            raise MediaNotCarried(
                f"a medium has the path {media.path[:80]!r}; expected the name of an object in "
                f"{OUTGOING}"
            )
        if len(fetched) >= _MOST_MEDIA:
            raise MediaNotCarried(f"a delivery has more than {_MOST_MEDIA} media")
        ending = _ENDING.search(media.path)
        path = folder / f"{len(fetched)}{ending.group() if ending else ''}"
        fetched.append(path)
        try:
            await objects.fetch(media.path, path)
        except ValueError as error:
            raise MediaNotCarried(str(error)) from error
        return msgspec.structs.replace(media, path=str(path))

    try:
        yield await _with_media(segments, fetch)
    finally:
        if fetched:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(_remove, folder, fetched)


async def _with_media(segments: Segments, change: Callable[[Media], Awaitable[Media]]) -> Segments:
    """Return the segments after applying ``change`` to each medium that has a path."""
    return tuple([await _changed(segment, change) for segment in segments])


async def _changed(segment: Segment, change: Callable[[Media], Awaitable[Media]]) -> Segment:
    match segment:
        case Forward():
            messages = [
                msgspec.structs.replace(each, segments=await _with_media(each.segments, change))
                for each in segment.messages
            ]
            return Forward(tuple(messages))
        case Image() | Voice() | Video() | File() if segment.media.path:
            return msgspec.structs.replace(segment, media=await change(segment.media))
        case _:
            return segment


def _remove(folder: Path, files: list[Path]) -> None:
    """Remove the files and their folder. An error is only logged: raised, it would replace the
    outcome of the platform call."""
    try:
        for file in files:
            file.unlink(missing_ok=True)
        if folder.exists():
            folder.rmdir()
    except OSError as error:
        logger.warning("the folder {} of sent media is not removed: {}", folder, error)
