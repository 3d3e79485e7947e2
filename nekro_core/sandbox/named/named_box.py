"""Manages one named box, from its first use to its destruction."""

import errno
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import IntEnum, StrEnum

import anyio
import anyio.abc

from nekro_core.sandbox.box import Box, BoxLost, SandboxError
from nekro_core.sandbox.named.storage import BoxesTakenOver, BoxRecord, BoxStorage, SavedState
from nekro_core.sandbox.preview.registry import PreviewTargetState

_log = logging.getLogger(__name__)

DIED = "it had died; its processes are gone, its files are as they were last saved"

_TRY_AGAIN_S = 60.0
"""Pause after a failed save, in seconds. With this pause, a full disk is logged only once a
minute."""
_END_S = 5.0
"""Longest wait for the end of a box, in seconds."""


Equip = Callable[[str, str, Box], Awaitable[None]]
"""A function that is called with owner, name and box after each start of a box, before any caller
uses the box."""


class ImageMismatch(SandboxError):
    """A box of this name exists, but it was made from another image."""


class TooManyBoxes(SandboxError):
    """The owner already has as many boxes as allowed."""


class BoxDestroyed(SandboxError):
    """The box was destroyed while a caller waited for it. Another box may now get its name."""


class StoredBoxUnreadable(SandboxError):
    """The stored files of a box cannot be read now. They are not changed. If ``passing`` is true,
    the storage can probably be read again soon."""

    def __init__(self, text: str, *, passing: bool = False) -> None:
        super().__init__(text)
        self.passing = passing


class BoxState(StrEnum):
    """The states of a box; `nekro_core.sandbox.named` shows how one follows another."""

    ABSENT = "absent"
    STARTING = "starting"
    RUNNING = "running"
    SLEEPING = "sleeping"
    DESTROYED = "destroyed"


class UseEffect(IntEnum):
    """What a use may change in a box. This decides what must be saved."""

    NOTHING = 0
    FILES = 1
    PROCESSES = 2
    """Background processes may change files at any time."""


@dataclass(frozen=True, slots=True)
class BoxLease:
    """A running box. It is not put to sleep until the caller calls `NamedBox.give_back`."""

    box: Box
    named: "NamedBox"


class NamedBox:
    """A box with a name. Only `NamedBoxes` makes such objects.

    ``make`` makes a new box from an image. ``equip`` is called with each new box before any caller
    uses it. ``clock`` is monotonic. ``running`` is the set of the running boxes of all owners; this
    object adds and removes itself. ``stored`` says that the box exists already and sleeps. The
    object is also a `PreviewTarget`, and stays the same while the box sleeps and wakes.
    """

    def __init__(
        self,
        owner: str,
        name: str,
        record: BoxRecord,
        *,
        make: Callable[[str], Awaitable[Box]],
        equip: Equip,
        storage: BoxStorage,
        clock: Callable[[], float],
        running: set["NamedBox"],
        stored: bool = False,
    ) -> None:
        self.owner = owner
        self.name = name
        self.record = record
        self.state = BoxState.SLEEPING if stored else BoxState.ABSENT
        self.idle_since = clock()
        self._make = make
        self._equip = equip
        self._storage = storage
        self._clock = clock
        self._running_boxes = running
        self._box: Box | None = None
        self._users = 0
        self._changed = False
        self._background = False
        self._died = False
        self._saved = SavedState()
        self._try_again_at = 0.0
        self._news: dict[str, object] = {}
        self._changing = anyio.Lock(fast_acquire=True)
        self._saving = anyio.Lock()

    @property
    def in_use(self) -> bool:
        """Return True if a call uses the box or waits for it."""
        return self._users > 0

    @property
    def running(self) -> bool:
        """Return True if the processes of the box run."""
        return self.state is BoxState.RUNNING and self._box is not None and self._box.alive

    @property
    def idle_bytes(self) -> int:
        """The memory of the box in bytes, last measured while it was idle; 0 if it does not run."""
        return self._box.idle_bytes if self._box is not None and self.running else 0

    @property
    def destroyed(self) -> bool:
        """Return True if the box was destroyed."""
        return self.state is BoxState.DESTROYED

    @property
    def changed(self) -> bool:
        """Return True if the box runs and a use may have changed its files since the last save."""
        return self._changed and self.running

    @property
    def needs_save(self) -> bool:
        """Return True if the box must be saved now: its files have changed, no call uses it, and no
        save has failed in the last `_TRY_AGAIN_S` seconds."""
        return self.changed and not self.in_use and self._clock() >= self._try_again_at

    @property
    def preview_state(self) -> PreviewTargetState:
        """See `PreviewTarget`."""
        if self.destroyed:
            return PreviewTargetState.GONE
        return PreviewTargetState.RUNNING if self.running else PreviewTargetState.SLEEPING

    async def connect(self, port: int) -> anyio.abc.ByteStream:
        """See `PreviewTarget`. An open connection does not prevent sleep. Raises
        `ConnectionRefusedError` and `BoxLost`."""
        if self._box is None or not self.running:
            raise BoxLost(f"{self.name} sleeps: its next use wakes it")
        return await self._box.connect(port)

    async def take(self) -> tuple[BoxLease, bool]:
        """Return the running box and whether it was started for the first time. Starts the box if
        necessary.

        Raises `BoxDestroyed`, `StoredBoxUnreadable` and the errors of making a box. After an error
        the box has the same state as before the call. But if it had died and nobody had noticed, it
        now sleeps. After a success the caller must call `give_back`.
        """
        self._users += 1
        try:
            if self.running and self._box is not None:
                return BoxLease(self._box, self), False
            async with self._changing:
                return await self._awake()
        except BaseException:
            self.give_back(UseEffect.NOTHING)
            raise

    def give_back(self, effect: UseEffect) -> None:
        """End one use, which may have had this effect on the box. The idle time starts again."""
        self._users -= 1
        self.idle_since = self._clock()
        self._changed = self._changed or effect >= UseEffect.FILES
        self._background = self._background or effect >= UseEffect.PROCESSES

    async def save_run(self) -> None:
        """Save the files after a run, if the storage wants that. The caller still uses the box."""
        if self._storage.saves_each_run:
            self._changed = True
            await self.save()

    def pop_notices(self) -> dict[str, object]:
        """Return the notices for the next user of the box, and remove them. There is ``woke`` after
        a sleep, and ``fault`` if the box died and no caller got an error for it."""
        news, self._news = self._news, {}
        return news

    async def note_loss(self) -> None:
        """Handle the death of the box during a use. The caller that used it has got the error, so
        no notice is left for the next user."""
        async with self._changing:
            if self.state is BoxState.RUNNING and not self.running:
                await self._set_asleep()

    async def note_death(self) -> None:
        """Handle the death of an idle box: free its resources, and leave a notice for its next
        user."""
        async with self._changing:
            if self.state is BoxState.RUNNING and not self.running and not self.in_use:
                self._died = True
                await self._set_asleep()

    async def save(self) -> bool:
        """Store the files if they may have changed. Return True if the stored files are now those
        of the box, or if the box does not run. After an error, log the error and return False; the
        next call tries again."""
        async with self._saving:
            box = self._box
            if box is None or not self.running or not (self._changed or self._background):
                return True
            self._changed = False
            saved = None
            try:
                saved = await self._storage.save(self.owner, self.name, box, self._saved)
            except BoxesTakenOver as error:
                _log.warning("%s (%s) ends: %s", self.name, self.owner, error)
                await self._set_asleep()
                return False
            except (SandboxError, OSError) as error:
                _log.error("files of %s (%s) were not saved: %s", self.name, self.owner, error)
                self._try_again_at = self._clock() + _TRY_AGAIN_S
                return False
            else:
                self._saved = saved
                return True
            finally:
                # `saved` is None if saving has failed or was cancelled. Then the files still count
                # as changed.
                self._changed = self._changed or saved is None

    async def sleep(self) -> bool:
        """Save the box and end its processes; return whether it sleeps. The box stays awake if a
        call uses it before the save ends, or if its files cannot be saved."""
        async with self._changing:
            if self.state is not BoxState.RUNNING:
                return self.state is BoxState.SLEEPING
            if self.in_use:
                return False
            idle_since = self.idle_since
            saved = await self.save()
            if not saved:
                # The idle time starts again, so the next try comes later.
                self.idle_since = self._clock()
            if not saved or self.destroyed or self._used_since(idle_since):
                return False
            await self._set_asleep()
            return True

    async def end(self) -> None:
        """End the processes of the box without saving, even if the box is in use. This is for the
        end of the bot."""
        if self.state is BoxState.RUNNING:
            await self._set_asleep()

    async def destroy(self) -> None:
        """End the box and delete its stored files. Calls that use it now get `BoxLost`. Raises
        `OSError`."""
        self.state = BoxState.DESTROYED
        box, self._box = self._box, None
        self._running_boxes.discard(self)
        await _end(box)
        async with self._changing, self._saving:
            await self._storage.forget(self.owner, self.name)

    async def _awake(self) -> tuple[BoxLease, bool]:
        self._must_live()
        if self.running and self._box is not None:
            return BoxLease(self._box, self), False
        if self.state is BoxState.RUNNING:
            self._died = True
            await self._set_asleep()
        before, self.state = self.state, BoxState.STARTING
        try:
            self._box = await self._started(restore=before is BoxState.SLEEPING)
            self.state = BoxState.RUNNING
            self._running_boxes.add(self)
        finally:
            if self.state is BoxState.STARTING:
                self.state = before
        if before is BoxState.SLEEPING:
            self._news = {"woke": True} | ({"fault": DIED} if self._died else {})
        self._died = False
        return BoxLease(self._box, self), before is BoxState.ABSENT

    async def _started(self, *, restore: bool) -> Box:
        box = await self._make(self.record.image)
        try:
            self._saved = SavedState()
            if restore:
                self._saved = await self._storage.restore(self.owner, self.name, box)
            await self._equip(self.owner, self.name, box)
            self._must_live()
        except OSError as error:
            await _end(box)
            _log.error("files of %s (%s) cannot be read: %s", self.name, self.owner, error)
            raise StoredBoxUnreadable(
                f"the files of {self.name} cannot be read now", passing=error.errno == errno.EAGAIN
            ) from error
        except BaseException:
            await _end(box)
            raise
        return box

    def _used_since(self, moment: float) -> bool:
        """Return True if a call uses the box now, has used it since ``moment``, or left unsaved
        changes."""
        return self.in_use or self._changed or self.idle_since != moment

    def _must_live(self) -> None:
        if self.destroyed:
            raise BoxDestroyed(f"{self.name} was destroyed")

    async def _set_asleep(self) -> None:
        box, self._box = self._box, None
        self.state = BoxState.SLEEPING
        self._running_boxes.discard(self)
        self._changed = self._background = False
        await _end(box)


async def _end(box: Box | None) -> None:
    if box is not None:
        with anyio.move_on_after(_END_S, shield=True):
            try:
                await box.destroy()
            except (SandboxError, OSError) as error:
                _log.error("box %s did not end cleanly: %s", box.box_id, error)
