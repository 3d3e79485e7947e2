"""Whose code a frame is: a plugin's, the bot's, or a library's, by the module that it runs in."""

import sys
from collections.abc import Iterator
from types import FrameType

from nekro_core.plugins.host.builtin import NAMESPACE

LOCAL_NAMESPACE = "nekro_local_"
"""What the packages of installed plugins begin with (see `nekro_core.plugins.host.loader`)."""
_BUILTIN = f"{NAMESPACE}.plugins."
_OWN = "nekro_core."
_DEEPEST = 200


def plugin_of_module(module: str) -> str:
    """``local/weather`` for a module of that plugin; empty for any other."""
    if module.startswith(LOCAL_NAMESPACE):
        _, _, rest = module.partition(".")
        return f"local/{rest.partition('.')[0]}" if rest else ""
    if module.startswith(_BUILTIN):
        return f"builtin/{module.removeprefix(_BUILTIN).partition('.')[0]}"
    return ""


def is_bot_module(module: str) -> bool:
    """Whether it is one of the bot's."""
    return module.startswith(_OWN)


def frames_outward(frame: FrameType | None) -> Iterator[FrameType]:
    """A frame and those that called it, innermost first."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def plugin_of_frame(frame: FrameType | None) -> str:
    """The plugin whose code runs here, or whose call of a library does; empty where the bot's own
    code comes before: what the bot does for a plugin is the bot's."""
    for depth, each in enumerate(frames_outward(frame)):
        module = each.f_globals.get("__name__") or ""
        if plugin := plugin_of_module(module):
            return plugin
        if is_bot_module(module) or depth > _DEEPEST:
            return ""
    return ""


def caller_frame(depth: int = 1) -> FrameType:
    """The frame that many calls above the one that asks."""
    return sys._getframe(depth + 1)  # noqa: SLF001 - documented, the only way without a copy
