"""Installs, replaces and removes a plugin's files as a whole, even if the command is killed.

While a command replaces the files there is a moment without any, and a moment in which the plugin
is switched off. So the command first writes a note of what it is going to do. If a note is there
and its writer has ended, the next process repairs the plugin: a bot before it loads its plugins, a
command before it lists or changes them.

A repair restores the old state or completes the new one. A plugin that is removed may lose its data
too, if the operator wants that. Once its files were moved away, a repair deletes the data: a part
of it is useless, and the operator who asked for it was told.
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
    """Another command is changing the plugins now."""


class PluginMove(msgspec.Struct, frozen=True, kw_only=True):
    """What is going to be done with one plugin. All paths are below the data folder.

    ``place`` is where its files belong, ``aside`` where the old ones go meanwhile. ``replaces``
    says whether ``place`` has files now, ``wanted`` whether the plugin shall be on. ``record`` is
    what the caller stores about the plugin, in the caller's own form; null if the plugin is
    removed. ``loses`` are paths that are deleted with its files. ``settled`` is set by a repair
    when only ``record`` is left to store; ``came`` says then whether the new files are in place.
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
    """Write the note; the files may be moved while the block is open. Raises `MoveInProgress` and
    `OSError`.

    The note is removed after an exception too. The caller then handles what it had moved.
    """
    with _locked(data_dir):
        _write(data_dir / NOTE_NAME, plan)
        try:
            yield
        finally:
            clear_note(data_dir)


def recover_interrupted_move(data_dir: Path) -> PluginMove | None:
    """Repair what a killed command left. Returns the move whose ``record`` is still to be stored,
    or None."""
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
    logger.warning("a command that changed the plugin {} was ended midway: it {}", plan.item, what)
    return plan


def is_lost(data_dir: Path, plan: PluginMove) -> bool:
    """Whether the plugin is removed with its data, and its files were moved away already."""
    return bool(plan.loses) and not (data_dir / plan.place).exists()


def delete(path: Path) -> None:
    """Delete a file, a folder or a link, but not a link's target. A missing path is no error."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)


def clear_note(data_dir: Path) -> None:
    """Remove the note. A missing note is no error."""
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
    """Hold the lock. The system releases it when the process ends, so its holder is alive."""
    file = os.open(data_dir / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise MoveInProgress("another command is changing the plugins now: wait for it") from None
    else:
        yield
    finally:
        os.close(file)
