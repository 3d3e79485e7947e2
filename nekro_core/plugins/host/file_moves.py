"""A plugin's files come and go as a whole, even where the command that moves them is killed.

Between "the old ones are aside" and "the new ones are there" there is a moment without any, and one
in which the plugin is off. Before it begins, a note says what is going to be done; whoever finds a
note without the process that wrote it puts things right: a bot before it loads its plugins, a
command before it lists or changes them.

Right is what was before, or all of what was to be. What a plugin loses with its files (its data,
where the operator wants it gone) is gone once the files were moved: half of it is of no use to
anybody, and who asked that it be deleted has been told so.
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
    """What is going to be done with one plugin. ``place`` and ``aside`` are paths below the data
    folder, ``replaces`` says whether something lies in ``place`` now, ``wanted`` whether the plugin
    is on; ``record`` is what to remember of it then, in the words of who remembers it, nothing
    where it goes. ``loses``: what is deleted with its files, paths below the data folder too.
    ``settled``: all but that is done, and ``came`` says what became of it."""

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
    """Within it the files may be moved. Raises `MoveInProgress`, and `OSError`.

    An exception is up to who moves: the note goes, since nothing was cut short.
    """
    with _locked(data_dir):
        _write(data_dir / NOTE_NAME, plan)
        try:
            yield
        finally:
            clear_note(data_dir)


def recover_interrupted_move(data_dir: Path) -> PluginMove | None:
    """Put right what a killed command left. Gives what is still to be remembered, if anything."""
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
    """Whether the plugin goes with all that it has: its files are away, and stay there."""
    return bool(plan.loses) and not (data_dir / plan.place).exists()


def delete(path: Path) -> None:
    """Whatever it is; a link, not what it points to; nothing where it is gone already."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)


def clear_note(data_dir: Path) -> None:
    """The note has done its work."""
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
    """Who holds the lock is alive: the system takes it back with the process."""
    file = os.open(data_dir / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise MoveInProgress("another command is changing the plugins now: wait for it") from None
    else:
        yield
    finally:
        os.close(file)
