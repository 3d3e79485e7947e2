"""Makes boxes with bubblewrap, without a server and without privileges."""

import json
import logging
import os
import secrets
import socket
import time
from collections.abc import Callable
from functools import partial

import anyio
import anyio.abc
import anyio.to_thread

from nekro_core.sandbox.box import (
    BackendUnavailable,
    Box,
    BoxSpec,
    Check,
    ImageUnavailable,
    SelfCheck,
)
from nekro_core.sandbox.box_packages import SharedPackages
from nekro_core.sandbox.check import check_box
from nekro_core.sandbox.jail import process_tree, remedies
from nekro_core.sandbox.jail.cgroups import CgroupManager
from nekro_core.sandbox.jail.command import SUPERVISOR, BoxLayout, box_arguments
from nekro_core.sandbox.jail.container import ContainerLimits
from nekro_core.sandbox.jail.defences import ALL, JailDefences
from nekro_core.sandbox.jail.interpreter import ProcessIdentity
from nekro_core.sandbox.jail.layout import JailLayout, lay_out
from nekro_core.sandbox.jail.process import JailProcesses
from nekro_core.sandbox.jail.templates import BoxTemplate
from nekro_core.sandbox.jail.uploads import UploadsFolder
from nekro_core.sandbox.jail.user_ids import UserIds
from nekro_core.sandbox.jail.watchdog import Watchdog
from nekro_core.sandbox.link.box_connection import BoxConnection
from nekro_core.sandbox.link.channel import Channel
from nekro_core.sandbox.link.worker_pool import WorkerPool
from nekro_core.sandbox.memory_limit import MemoryLimit, half_of_machine
from nekro_core.sandbox.package_fetch import PLACE
from nekro_core.sandbox.settings import SandboxSettings
from nekro_core.sandbox.uploads import BoxUploads
from nekro_core.system.confinement.jail_filter import build_buffer_filter

_log = logging.getLogger(__name__)

_READY_TIMEOUT_S = 20.0
_LAUNCHER_BYTES = 200 * 1024
"""Memory, in bytes, that the bubblewrap process outside the box is assumed to need. 165 KB were
measured."""
_NICE = 5
_GUEST_NICE = 10
"""Nice value of the guest's processes. It is higher than the supervisor's nice value, so that
the supervisor gets time to end the guest's processes. While twenty guest processes fork without
end, the supervisor gets a quarter of the processors; with equal nice values it got a twentieth."""


class JailBackend:
    """A `Backend` that uses bubblewrap. Its watchdog runs in ``tasks``. Close the backend before
    ``tasks`` ends."""

    name = "jail"

    def __init__(
        self,
        settings: SandboxSettings,
        tasks: anyio.abc.TaskGroup,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._tasks = tasks
        self._workers = WorkerPool(tasks)
        self._clock = clock
        self._user_ids = UserIds(settings.uid_start, settings.uid_count)
        self._layout: JailLayout | None = None
        self._templates: dict[tuple[str, bool], BoxTemplate] = {}
        self._preparing = anyio.Lock()
        self._boxes: dict[str, tuple[BoxConnection, JailProcesses]] = {}
        self._watching = anyio.CancelScope()
        self._total = MemoryLimit(
            settings.total_memory_bytes or half_of_machine(),
            settings.total_wait_seconds,
            lambda: [box for box, _ in self._boxes.values()],
        )

    async def self_check(self) -> SelfCheck:
        """See `Backend.self_check`."""
        try:
            box = await self.create(self._settings.spec)
        except BackendUnavailable as error:
            failed = Check(
                name="a box starts",
                ok=False,
                seen=str(error),
                remedy=remedies.find_remedy(str(error), ContainerLimits.find()),
            )
            return SelfCheck(backend=self.name, checks=(failed,))
        try:
            checks = await check_box(box, self._settings.spec)
            _, processes = self._boxes[box.box_id]
            dropped = _check_real_ids(processes)
        finally:
            await box.destroy()
        started = Check(name="a box starts", ok=True, seen=self._described())
        return SelfCheck(backend=self.name, checks=(started, dropped, *checks))

    async def images(self) -> tuple[str, ...]:
        """See `Backend.images`."""
        return tuple(sorted((await self._prepare()).templates))

    async def create(
        self, spec: BoxSpec, *, defences: JailDefences = ALL, with_fd_socket: bool = True
    ) -> Box:
        """See `Backend.create`. Only tests pass ``defences`` and ``with_fd_socket``. If
        ``with_fd_socket`` is False, the box cannot pass descriptors to the host, so its connections
        are relayed."""
        try:
            return await self._create(spec, defences, with_fd_socket=with_fd_socket)
        except OSError as error:  # The host may have no descriptor, process or memory left.
            raise BackendUnavailable(f"a box cannot be made: {error}") from error

    @property
    def packages(self) -> SharedPackages | None:
        """See `Backend.packages`. The packages fit one version of Python. So an image with another
        interpreter than the one that the jail has found for ``python`` has none."""
        layout = self._layout
        template = layout.templates.get(self._settings.spec.template) if layout else None
        if layout is None or template is None or PLACE not in template.packages.split(":"):
            return None
        return layout.packages

    @property
    def crowded(self) -> bool:
        """See `Backend.crowded`."""
        return self._total.crowded

    async def _create(self, spec: BoxSpec, defences: JailDefences, *, with_fd_socket: bool) -> Box:
        await self._total.admit()
        layout = await self._prepare()
        template = await self._template(layout, spec.template, own_paths=defences.own_paths)
        ours, theirs = socket.socketpair()
        fd_socket, their_fd_socket = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        box_id = secrets.token_hex(8)
        try:
            ends = (theirs, their_fd_socket) if with_fd_socket else (theirs,)
            box, processes = self._launch(
                layout, template, box_id, defences.bounds(spec), ends, defences
            )
        except BaseException:
            ours.close()
            fd_socket.close()
            raise
        finally:
            theirs.close()
            their_fd_socket.close()
        self._boxes[box_id] = (box, processes)
        limited = anyio.Event()
        if defences.limits and defences.group and layout.groups is not None:
            self._tasks.start_soon(self._limit, layout.groups, box, processes, limited)
        else:
            limited.set()
        try:
            if with_fd_socket:
                box.receive_descriptors(fd_socket)
            else:
                fd_socket.close()
            box.attach(await Channel.open(ours, box.handle, box.lose))
            with anyio.move_on_after(_READY_TIMEOUT_S):
                await box.ready.wait()
                await limited.wait()
            if box.alive and box.ready.is_set():
                processes.find_supervisor()
                return box
        except BaseException:
            with anyio.CancelScope(shield=True):
                await limited.wait()
                await box.destroy()
                fd_socket.close()
            raise
        await limited.wait()
        complaint = processes.complaint() or box.lost_reason or "it did not answer"
        await box.destroy()
        raise BackendUnavailable(f"a box did not start: {complaint}")

    def processes_of(self, box: Box) -> list[int]:
        """Return the host's process ids of a box: the launcher (the bubblewrap process outside the
        box), then the supervisor, then the supervisor's descendants. The list is empty for a box
        that has ended."""
        if box.box_id not in self._boxes:
            return []
        _, processes = self._boxes[box.box_id]
        return [processes.pid, *processes.tree()]

    async def aclose(self) -> None:
        """Destroy every box of this backend, and remove the backend's files from disk."""
        self._watching.cancel()
        with anyio.CancelScope(shield=True):
            for box, _ in tuple(self._boxes.values()):
                await box.destroy()
            self._workers.close()
            if self._layout is not None:
                await anyio.to_thread.run_sync(self._layout.remove)
                self._layout = None
                self._templates.clear()

    def _launch(
        self,
        layout: JailLayout,
        template: BoxTemplate,
        box_id: str,
        spec: BoxSpec,
        ends: tuple[socket.socket, ...],
        defences: JailDefences,
    ) -> tuple[BoxConnection, JailProcesses]:
        identity = self._user_ids.take() if defences.own_user else ProcessIdentity()
        path = layout.folder.uploads(box_id)
        held = BoxUploads(spec.disk_bytes, layout.uploads)
        uploads = UploadsFolder.make(path, group=identity.uid, held=held)

        def free() -> None:
            uploads.remove()
            self._user_ids.give_back(identity)
            self._boxes.pop(box_id, None)

        filter_file = _anonymous_file(layout.filter)
        view = BoxLayout(
            spec=spec, template=template, folder=layout.folder, uploads=path, seccomp=filter_file
        )
        arguments = box_arguments(view, defences)
        # The arguments are passed through a descriptor, because code inside can read the command
        # line of process 1.
        arguments_file = _anonymous_file("\0".join((*arguments, "")).encode())
        # These are the supervisor's ends of the socket pairs.
        numbers = [end.fileno() for end in ends]
        restart_after_s = self._settings.rest_seconds
        told = _guest_settings(
            layout,
            template,
            spec,
            restart_after_s=restart_after_s,
            bounded=defences.limits and defences.calls_filtered,
        )
        supervisor = (template.interpreter.executable, "-I", "-S", "-c", SUPERVISOR, told)
        try:
            processes = JailProcesses.start(
                [
                    str(layout.launcher),
                    *("--args", str(arguments_file)),
                    *("--", *supervisor, *map(str, numbers)),
                ],
                identity=identity,
                dropper=layout.dropper,
                descriptors=(*numbers, filter_file, arguments_file),
                free=free,
                environment={} if defences.clean_start else dict(os.environ),
            )
        except BaseException:
            free()
            raise
        finally:
            os.close(filter_file)
            os.close(arguments_file)
        box = BoxConnection(
            box_id=box_id,
            spec=spec,
            workers=self._workers,
            uploads=uploads,
            processes=processes,
            clock=self._clock,
            bounded_by=layout.bounded_by,
            starved=processes.starved,
            total=self._total,
            outside_bytes=_LAUNCHER_BYTES,
        )
        return box, processes

    async def _limit(
        self, groups: CgroupManager, box: BoxConnection, processes: JailProcesses, done: anyio.Event
    ) -> None:
        """Put the box into a cgroup. This can take 20 ms. To save this time, it is done while the
        box's interpreter starts."""
        try:
            await anyio.to_thread.run_sync(
                lambda: processes.limit(groups.make(box.box_id, box.spec))
            )
        except OSError as error:
            _log.warning("a box has no cgroup, only the watchdog limits it: %s", error)
            box.bounded_by = "memory and pids by the watchdog"
        finally:
            done.set()

    async def _prepare(self) -> JailLayout:
        async with self._preparing:
            if self._layout is None:
                identity = self._user_ids.take()
                try:
                    self._layout = await anyio.to_thread.run_sync(
                        partial(lay_out, self._settings, identity, self._total.limit)
                    )
                finally:
                    self._user_ids.give_back(identity)
                self._tasks.start_soon(self._watch, name="watchdog of the boxes")
        return self._layout

    async def _template(self, layout: JailLayout, name: str, *, own_paths: bool) -> BoxTemplate:
        if name not in layout.templates:
            raise ImageUnavailable(name, sorted(layout.templates))
        key = (name, own_paths)
        async with self._preparing:
            if key not in self._templates:
                identity = self._user_ids.take()
                prepare = partial(layout.prepare, own_paths=own_paths)
                try:
                    self._templates[key] = await anyio.to_thread.run_sync(
                        prepare, layout.templates[name], identity
                    )
                finally:
                    self._user_ids.give_back(identity)
        return self._templates[key]

    async def _watch(self) -> None:
        with self._watching:
            await Watchdog(lambda: tuple(self._boxes.values()), self._total).watch()

    def _described(self) -> str:
        assert self._layout is not None
        interpreter = self._layout.interpreter
        return (
            f"{self._layout.launcher.name}, Python {interpreter.release} "
            f"({interpreter.executable}); {self._layout.bounded_by}; {self._total.describe()}"
        )


def _guest_settings(
    layout: JailLayout,
    template: BoxTemplate,
    spec: BoxSpec,
    *,
    restart_after_s: float,
    bounded: bool,
) -> str:
    """Return the settings that the supervisor of a box gets, as JSON."""
    told = {
        "memory": spec.memory_bytes,
        "processes": spec.processes,
        "packages": template.packages,
        "preload": " ".join(template.preload),
        "restart_after": restart_after_s,
        # A cgroup limits the box's processor share. Without a cgroup, a higher nice value of all
        # processes of the box limits it.
        "nice": 0 if layout.groups is not None else _NICE,
        "guest_nice": _GUEST_NICE if layout.groups is not None else _NICE,
        "guest_filter": build_buffer_filter(os.uname().machine).hex() if bounded else "",
    }
    return json.dumps(told)


def _check_real_ids(processes: JailProcesses) -> Check:
    """Check the user ids from outside the box, because code inside cannot see its real ids."""
    found = process_tree.real_user_ids(processes.tree())
    return Check(
        name="the host's root is nobody inside",
        ok=bool(found) and 0 not in found,
        seen=f"real user ids {sorted(found)}",
        remedy="the box runs as the host's root: its user id was not dropped",
    )


def _anonymous_file(content: bytes) -> int:
    """Make an anonymous file with ``content``. Return its descriptor, which reads from the
    beginning."""
    file = os.memfd_create("nekro-box")
    os.write(file, content)
    os.lseek(file, 0, os.SEEK_SET)
    return file
