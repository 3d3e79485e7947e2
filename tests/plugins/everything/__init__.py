"""A plugin that registers one thing of every kind. With it, tests check that unloading removes all
of them."""

import asyncio
import threading
from dataclasses import dataclass
from typing import Any, Generic, Literal, Optional, TypeVar

from pydantic import BaseModel, Field

from nekro_core.api import i18n
from nekro_core.api.core import logger
from nekro_core.api.plugin import (
    ConfigBase,
    ExtraField,
    NekroPlugin,
    SandboxMethod,
    SandboxMethodType,
)
from nekro_core.api.schemas import AgentCtx
from nekro_core.api.signal import MsgSignal

from . import words
from .deeper.still import DEPTH, Counted

plugin = NekroPlugin(
    name="Everything",
    module_name="everything",
    description="One of everything.",
    version="1.0.0",
    author="ann",
    url="",
    i18n_name=i18n.i18n_text(zh_CN="一切", en_US="Everything"),
    allow_sleep=False,
)
Value = TypeVar("Value")


@plugin.mount_config()
class Config(ConfigBase):
    """The plugin's configuration."""

    GREETING: str = Field(default="Hello", title="Greeting")
    KEY: str = Field(default="", json_schema_extra=ExtraField(is_secret=True).model_dump())


class Box(BaseModel, Generic[Value]):
    """This class is generic because pydantic makes and stores classes for generic models."""

    held: Value
    next: Optional["Box[Value]"] = None


@dataclass
class Place:
    """A place with the name of its city."""

    city: str
    kind: Literal["town", "village"] = "town"


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "look", "Look.")
async def look(_ctx: AgentCtx, place: Place, boxes: list[Box[int]] | None = None) -> str:
    """Look at a place.

    Args:
        place: Where.
        boxes: What.

    Returns:
        What there is.
    """
    await _ctx.send_text(f"{plugin.get_config(Config).GREETING} {words.WORD} {DEPTH}")
    held = sum(box.held for box in boxes or ())
    return f"{place.city}: {held}"


@plugin.mount_sandbox_method(SandboxMethodType.AGENT, "think", "Think.")
async def think(_ctx: AgentCtx) -> str:
    """Think."""
    asyncio.create_task(forever())  # noqa: RUF006 - plugins write this
    return await asyncio.to_thread(lambda: threading.current_thread().name)


async def hidden(_ctx: AgentCtx, count: Counted) -> str:
    """Return the count. The plugin offers this tool only in groups."""
    return str(count)


@plugin.mount_prompt_inject_method("prompt")
async def prompt(_ctx: AgentCtx) -> str:
    """Say something in every prompt."""
    return f"{words.WORD} in {_ctx.chat_key}"


@plugin.mount_collect_methods()
async def collect(_ctx: AgentCtx) -> list[Any]:
    """Choose the tools of a chat."""
    if _ctx.channel_type == "group":
        return [look, think, SandboxMethod(SandboxMethodType.TOOL, "hidden", "", hidden)]
    return [look]


@plugin.mount_on_user_message()
async def message(_ctx: AgentCtx, message: Any) -> MsgSignal | None:
    """Store the text of a message."""
    await plugin.store.set(chat_key=_ctx.chat_key, store_key="heard", value=str(message))
    return MsgSignal.CONTINUE


@plugin.mount_on_system_message()
async def system(_ctx: AgentCtx, text: str) -> None:
    """Log a system line."""
    logger.debug("{} {}", _ctx.chat_key, text)


@plugin.mount_on_channel_reset()
async def reset(_ctx: AgentCtx) -> None:
    """Delete the stored text."""
    await plugin.store.delete(chat_key=_ctx.chat_key, store_key="heard")


async def forever() -> None:
    """Work in the background."""
    while True:
        await asyncio.sleep(60)


@plugin.mount_init_method()
async def init() -> None:
    """Start a task of each kind, and register two things that unloading must remove."""
    plugin.get_plugin_data_dir()
    asyncio.create_task(forever())  # noqa: RUF006 - plugins write this
    plugin.tasks.start(forever, name="everything's")
    plugin.effects.add("nothing", words.forget)
    words.listen(forever)


@plugin.on_enabled()
async def enabled() -> None:
    """Do nothing when the plugin is enabled."""


@plugin.on_disabled()
async def disabled() -> None:
    """Do nothing when the plugin is disabled."""


@plugin.mount_cleanup_method()
async def cleanup() -> None:
    """Log that the plugin ends."""
    plugin.logger.debug("over")
