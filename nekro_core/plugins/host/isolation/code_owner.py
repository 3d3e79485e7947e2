"""Finds out whether code belongs to a plugin, the bot or a library, by the name of its module."""

import sys
from collections.abc import Iterator
from types import FrameType

from nekro_core.plugins.host.builtin import NAMESPACE

LOCAL_NAMESPACE = "nekro_local_"
"""The prefix of package names of installed plugins (see `nekro_core.plugins.host.loader`)."""
_BUILTIN = f"{NAMESPACE}.plugins."
_OWN = "nekro_core."
_DEEPEST = 200


def plugin_of_module(module: str) -> str:
    """Get the plugin of a module: ``local/weather``; empty for a module of the bot or a library."""
    if module.startswith(LOCAL_NAMESPACE):
        _, _, rest = module.partition(".")
        return f"local/{rest.partition('.')[0]}" if rest else ""
    if module.startswith(_BUILTIN):
        return f"builtin/{module.removeprefix(_BUILTIN).partition('.')[0]}"
    return ""


def is_bot_module(module: str) -> bool:
    """Return True if a module belongs to the bot."""
    return module.startswith(_OWN)


def frames_outward(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield a frame and its callers, innermost first."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def plugin_of_frame(frame: FrameType | None) -> str:
    """Get the plugin whose code runs in this frame. If a library runs in the frame, get the plugin
    that called the library; empty if the bot's code called the library, even if a plugin called the
    bot's code."""
    for depth, each in enumerate(frames_outward(frame)):
        module = each.f_globals.get("__name__") or ""
        if plugin := plugin_of_module(module):
            return plugin
        if is_bot_module(module) or depth > _DEEPEST:
            return ""
    return ""


def caller_frame(depth: int = 1) -> FrameType:
    """Get the frame that is ``depth`` calls above the caller."""
    return sys._getframe(depth + 1)  # noqa: SLF001 - it does not copy the stack
