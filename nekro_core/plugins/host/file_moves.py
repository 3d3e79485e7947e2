"""Installs, replaces and removes all files of a plugin together, even if the command is killed.

While a command replaces the files, there is a moment in which the files are missing, and a time in
which the plugin is switched off. So the command first writes a note file that says what it will do,
and deletes the note at the end. If a process ends before that, the note remains, and the next
process repairs the plugin: a bot before it loads its plugins, a command before it lists or changes
them.

A repair restores the old state or completes the new one. If the command was removing a plugin with
its data, and has already moved the plugin's files away, the repair deletes the data: a part of the
data may already be deleted, so the rest is useless.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from loguru import logger

from nekro_core.plugins.host.switches import PluginSwitches
from nekro_core.system.errors import NekroError

NOTE_NAME = "plugins.moving.json"
_LOCK = "plugins.moving.lock"


class MoveInProgress(NekroError):
    """Another command is changing the plugins at the same time."""


class PluginMove(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the note: the planned change of one plugin. All paths are below the data
    folder.

    ``place`` is the path of the plugin's files, ``aside`` the path to which the old files are
    moved. ``replaces`` says whether ``place`` has files before the move. ``wanted`` says whether
    the plugin must be switched on after the move or its repair. ``record`` is the caller's own data
    about the plugin, which the caller stores after the move; null if the plugin is removed.
    ``loses`` lists paths that are deleted with the plugin's files.

    Only a repair sets the last two fields. ``settled`` means that the files are repaired, and only
    ``record`` must still be stored. ``came`` means that the new files are in place.
    """

    item: str
    key: str
    place: str
    aside: str
    replaces: bool
    wanted: bool
    record: msgspec.Raw = msgspec.Raw(b"null")
    loses: tuple[str, ...] = ()
    settled: bool = False
    came: bool = False


@contextmanager
def move_files(data_dir: Path, plan: PluginMove) -> Iterator[None]:
    """Write the note, and delete it when the block ends. The caller moves the files inside the
    block. Raises `MoveInProgress` and `OSError`.

    The note is also deleted if the block raises an exception. So the block must move the files back
    before it raises.
    """
    with _locked(data_dir):
        _write(data_dir / NOTE_NAME, plan)
        try:
            yield
        finally:
            clear_note(data_dir)


def recover_interrupted_move(data_dir: Path) -> PluginMove | None:
    """Repair the plugin that a killed command was changing. Returns the move if its ``record`` must
    still be stored, else None."""
    path = data_dir / NOTE_NAME
    if not path.exists():
        return None
    try:
        with _locked(data_dir):
            plan = _read(path)
            if plan is None or plan.settled:
                return plan
            plan = msgspec.structs.replace(plan, settled=True, came=_put_right(data_dir, plan))
            _write(path, plan)
    except MoveInProgress:
        return None
    what = "is the new one" if plan.came else "is as it was"
    what = "is gone" if is_lost(data_dir, plan) else what
    logger.warning("a command that changed the plugin {} was killed: now it {}", plan.item, what)
    return plan


def is_lost(data_dir: Path, plan: PluginMove) -> bool:
    """Return True if the move removes the plugin with its data, and the plugin's files have already
    been moved away."""
    return bool(plan.loses) and not (data_dir / plan.place).exists()


def delete(path: Path) -> None:
    """Delete a file, a folder or a link; a link's target is not deleted. A missing path is no
    error."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)


def clear_note(data_dir: Path) -> None:
    """Delete the note. A missing note is no error."""
    (data_dir / NOTE_NAME).unlink(missing_ok=True)


def _put_right(data_dir: Path, plan: PluginMove) -> bool:
    place, aside = data_dir / plan.place, data_dir / plan.aside
    if is_lost(data_dir, plan):
        for each in (*plan.loses, plan.aside):
            delete(data_dir / each)
        came = False
    elif not place.exists() and aside.exists():
        aside.rename(place)
        came = False
    else:
        came = place.exists() and (aside.exists() or not plan.replaces)
    choices = PluginSwitches(data_dir)
    if choices.wanted(plan.item) != plan.wanted:
        choices.choose(plan.item, plan.key, wanted=plan.wanted)
    return came


def _read(path: Path) -> PluginMove | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=PluginMove)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as error:
        logger.error("{}: cannot be read ({}), and is removed", path, error)
        path.unlink(missing_ok=True)
        return None


def _write(path: Path, plan: PluginMove) -> None:
    fresh = path.with_name(f".{path.name}.new")
    with fresh.open("wb") as file:
        file.write(msgspec.json.encode(plan))
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


@contextmanager
def _locked(data_dir: Path) -> Iterator[None]:
    """Hold the lock of the note. The system releases the lock when the process that holds it ends.
    So if another process holds the lock, that process still runs."""
    file = os.open(data_dir / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise MoveInProgress("another command is changing the plugins now: wait for it") from None
    else:
        yield
    finally:
        os.close(file)
