"""Deletes the copies of boxes on this machine after another process has deleted the boxes."""

import shutil
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path

from anyio import to_thread

from nekro_core.chat import ChatKey
from nekro_core.cluster.box_storage import SharedBoxStorage
from nekro_core.plugins.authoring.host_files import IN_USE_S
from nekro_core.sandbox.named import NamedBoxes
from nekro_core.store.shared_files import BoxFilesRepository


class BoxErasures:
    """Follows the deletions of boxes by other processes.

    Args:
        rows: The rows of boxes.
        storage: The files of boxes.
        boxes: The running boxes.
        folder: The folder of the files on this machine.
        copies: The folder ``plugin_files``, in which plugins have copies of files of boxes.
        wall: Returns the time in seconds since 1970.
    """

    def __init__(
        self,
        rows: BoxFilesRepository,
        storage: SharedBoxStorage,
        boxes: NamedBoxes,
        folder: Path,
        copies: Path,
        *,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._rows = rows
        self._storage = storage
        self._boxes = boxes
        self._folder = folder
        self._copies = copies
        self._wall = wall
        self._begun = False

    async def follow(self, name: str) -> None:
        """Delete the boxes that have no row any more: end those that run, and delete the files of
        this machine. ``name`` stands for the chat whose rows have changed; if it is empty, all
        chats are looked through. If that one chat has no row at all, all its boxes end, because the
        chat's data were erased.

        Copies that plugins made have no rows, and may be of a chat that was erased while this
        process could not hear of it. So if ``name`` is empty, they are deleted too: all of them at
        the first call, when the process begins, and later those that no running call can need.
        This is a follower of `ChangeTopic.BOX_FILES`. Raises `StoreError` and `OSError`."""
        copies: defaultdict[str, set[str]] = defaultdict(set)
        folder, erased = self._folder, ""
        if name:
            chat_key = self._rows.notices.chat_of(name)
            if chat_key is None:
                return
            if not await self._rows.of_chat(chat_key):
                made = self._copies / chat_key.file_name
                await to_thread.run_sync(partial(shutil.rmtree, made, ignore_errors=True))
            folder, erased = folder / chat_key.file_name, str(chat_key)
            copies[erased] = set()
        else:
            older = self._wall() - IN_USE_S if self._begun else float("inf")
            self._begun = True
            await to_thread.run_sync(_delete_older, self._copies, older)
        for copy in await self._storage.copies(folder):
            copies[copy.owner].add(copy.name)
        for named in self._boxes.running:
            if not name or named.owner == erased:
                copies[named.owner].add(named.name)
        for owner, names in copies.items():
            await self._compare(owner, names, erased=owner == erased)

    async def _compare(self, owner: str, names: set[str], *, erased: bool) -> None:
        rows = {row.name for row in await self._rows.of_chat(ChatKey.parse(owner))}
        for name in names - rows:
            running = any(
                named.owner == owner and named.name == name for named in self._boxes.running
            )
            # A running box may have no row because it was not saved yet.
            if running and not self._storage.shares(owner, name) and (rows or not erased):
                continue
            if running:
                await self._boxes.of(owner).destroy(name)
            await self._storage.forget_here(owner, name)


def _delete_older(folder: Path, older: float) -> None:
    """Delete the files below a folder that were last changed before ``older``, in seconds since
    1970."""
    for path in folder.rglob("*"):
        try:
            if not path.is_dir() and path.lstat().st_mtime < older:
                path.unlink()
        except FileNotFoundError:  # Its call, or another erasure, has deleted it.
            continue
