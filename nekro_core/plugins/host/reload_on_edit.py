"""Reloads plugins as soon as their files are saved."""

from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import anyio
from loguru import logger

from nekro_core.plugins.host.builtin import items_in
from nekro_core.system.folder_watch import stop_event_of_watch

_TOGETHER_MS = 200
"""Changes within this time cause one reload: an editor writes a file in several steps, and a person
may save several files."""
_NOT_LOADED = frozenset({"tests", "test", "docs"})
"""Folders of a plugin whose files do not run in the bot. A change in them does not reload the
plugin."""


async def watch_files(folder: Path, reload: Callable[[str], Awaitable[None]]) -> None:
    """Call ``reload`` with the item of each plugin whose files change. Runs until cancelled. A
    plugin may be a symbolic link to its author's folder."""
    import watchfiles  # noqa: PLC0415 - only plugin authors need it

    await anyio.Path(folder).mkdir(parents=True, exist_ok=True)
    while True:
        places = _places(folder)
        watched = (folder, *places)
        async with stop_event_of_watch() as stop:
            async for changes in watchfiles.awatch(
                *watched, debounce=_TOGETHER_MS, step=50, stop_event=stop
            ):
                edited = edited_items(places, (Path(path) for _, path in changes))
                for item in edited:
                    logger.info("plugin {}: its files changed, so it is loaded again", item)
                    await reload(item)
                if _places(folder) != places:
                    break


def edited_items(places: dict[Path, str], changed: Iterable[Path]) -> list[str]:
    """Get the items of the plugins to which changed files belong, each item once. ``places`` maps
    the real path of a plugin to its item."""
    found: dict[str, None] = {}
    for path in changed:
        for place, item in places.items():
            if path == place or place in path.parents:
                inner = path.relative_to(place).parts
                if not _NOT_LOADED.intersection(inner) and not path.name.startswith("."):
                    found[item] = None
    return list(found)


def _places(folder: Path) -> dict[Path, str]:
    names = {path.stem if path.suffix == ".py" else path.name for path in folder.iterdir()}
    found: dict[Path, str] = {}
    for name in sorted(names | set(items_in(folder))):
        for path in (folder / name, folder / f"{name}.py"):
            if not name.startswith((".", "_")) and path.exists():
                found[path.resolve()] = f"local/{name}"
    return found
