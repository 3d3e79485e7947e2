"""Starts Chromium for one page that a stranger may have written.

Chromium's own sandbox confines the processes that read the page: they have no files, no network and
few system calls. The sandbox does not work for root. If the bot runs as root, Chromium runs as a
separate user who owns nothing but the folder of this page. Chromium gets none of the bot's
environment variables, because they may contain keys.
"""

import os
import secrets
import shlex
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from nekro_core.sandbox.jail.user_ids import mapped_user_ids
from nekro_core.system.errors import NekroError
from nekro_core.system.locked_temp_folder import LockedTempFolder, temp_parents

_CLOSE_S = 5.0
_FOR_BOXES = 50_000
"""The highest 50,000 user ids of the range are for boxes. The ids for pages are below them."""
_IDS = 1_000
_NOBODY = 65_534
_NO_NETWORK = (
    "--proxy-server=http://nowhere.invalid:1",
    "--proxy-bypass-list=<-loopback>",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
)
"""Options with which Chromium cannot reach any address, not even on this machine. They are needed
because scripts may open connections that Playwright does not intercept, such as a WebSocket."""
_BECOME_USER = (
    "import os, sys; user = int(sys.argv[1]); os.setgroups([]); os.setresgid(user, user, user); "
    "os.setresuid(user, user, user); os.execv(sys.argv[2], sys.argv[2:])"
)


class CannotConfine(NekroError):
    """Chromium cannot be started with its sandbox. The text says the reason."""


@asynccontextmanager
async def confined_page(
    program: str, *, viewport: Mapping[str, int], scale: float
) -> AsyncIterator[Any]:
    """Start Chromium and open a page; end Chromium after the block, also if it is cancelled.

    Args:
        program: The path of Chromium.
        viewport: Width and height of the page, in pixels.
        scale: Pixels of the picture for each pixel of the page.

    Yields:
        Playwright's page.

    Raises:
        ImportError: Playwright is not installed.
        CannotConfine: Chromium does not start, for example because the kernel allows no user
            namespaces.
    """
    from playwright.async_api import Error, async_playwright  # noqa: PLC0415 - optional

    folder = await to_thread.run_sync(_new_folder)
    playwright = context = None
    try:
        home, launcher = await to_thread.run_sync(_prepare, folder.path, program)
        playwright = await async_playwright().start()
        try:
            context = await playwright.chromium.launch_persistent_context(
                home,
                executable_path=launcher,
                chromium_sandbox=True,
                args=_NO_NETWORK,
                env=_environment(home),
                viewport=viewport,  # type: ignore[arg-type] # a dict
                device_scale_factor=scale,
            )
        except Error as error:
            lines = str(error).splitlines()
            reason = next((line for line in lines if "sandbox" in line.lower()), lines[0])
            raise CannotConfine(reason.strip()) from None
        yield await context.new_page()
    finally:
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(_CLOSE_S):
                if context is not None:
                    await context.close()
            with anyio.move_on_after(_CLOSE_S):
                if playwright is not None:
                    await playwright.stop()
            await to_thread.run_sync(folder.remove)


def _new_folder() -> LockedTempFolder:
    """Make a folder that other users can reach. Raises `CannotConfine`."""
    for parent in temp_parents():
        with suppress(OSError):
            return LockedTempFolder(parent, "nekro-page-")
    raise CannotConfine("there is no temporary folder that other users can reach")


def _prepare(folder: Path, program: str) -> tuple[Path, str]:
    """Make the home folder of Chromium. Return this folder and the program to start."""
    home = folder / "home"
    home.mkdir(mode=0o700)
    if os.geteuid() != 0:
        return home, program
    user = _free_user()
    os.chown(home, user, user)
    folder.chmod(0o711)
    launcher = folder / "chromium"
    command = [sys.executable, "-IS", "-c", _BECOME_USER, str(user), program]
    launcher.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    launcher.chmod(0o700)
    return home, str(launcher)


def _free_user() -> int:
    first, end = mapped_user_ids()
    start = end - _FOR_BOXES - _IDS
    return start + secrets.randbelow(_IDS) if start > max(first, _NOBODY) else _NOBODY


def _environment(home: Path) -> dict[str, str | float | bool]:
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
    return {**kept, "HOME": str(home), "TMPDIR": str(home)}
