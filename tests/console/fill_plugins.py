"""Gives the bot of `tests.console.serve` plugins whose names, texts and errors are hard to show."""

import time
from pathlib import Path

from nekro_core.app.app import App
from nekro_core.chat import ChatKey, ChatMessage, Sender, Text

EVIL = "<img src=x onerror=alert(1)>"
_SOURCE = f'''
"""A plugin for pictures of the console."""

from typing import Any, Literal

from fastapi import APIRouter
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, Field

from nekro_core.api.plugin import ConfigBase, ExtraField, NekroPlugin, SandboxMethodType
from nekro_core.api.schemas import AgentCtx

plugin = NekroPlugin("Weather {EVIL}", "weather", "Tells the weather. {EVIL}", "1.2.0", "ann", "")


class Station(BaseModel):
    """A place where the weather is measured."""

    name: str = "Kyoto"
    height: int = Field(default=50, ge=0, le=9000, description="In metres above the sea.")
    key: str = Field(default="", json_schema_extra=ExtraField(is_secret=True).model_dump())


@plugin.mount_config()
class Config(ConfigBase):
    CITY: str = Field(default="Kyoto", title="City", description="Where people ask from. {EVIL}")
    API_KEY: str = Field(
        default="", title="Key", json_schema_extra=ExtraField(is_secret=True).model_dump()
    )
    HOURS: int = Field(default=24, title="Hours", description="How far ahead.", ge=1, le=240)
    UNITS: Literal["metric", "imperial"] = Field(default="metric", title="Units")
    WARN: bool = Field(default=True, title="Warn of storms")
    WORDS: list[str] = Field(default=["rain", "snow"], title="Words")
    STATIONS: list[Station] = Field(default=[Station()], title="Stations")
    NAMES: dict[str, int] = Field(default={{"home": 1}}, title="Numbers of places")
    GREETING: str = Field(default="Good morning.\\nHere is the weather.", title="Greeting")


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "forecast", "Tells the weather.")
async def forecast(_ctx: AgentCtx, city: str, days: int = 1) -> str:
    """Tell the weather of a city.

    Args:
        city: The name of the city.
        days: How many days ahead.
    """
    if city == "nowhere":
        raise LookupError("there is no weather in {EVIL}")
    return f"{{city}}: rain for {{days}} days {EVIL}"


@plugin.mount_router()
def router() -> APIRouter:
    routes = APIRouter()

    @routes.get("/", response_class=HTMLResponse)
    async def show() -> str:
        return "<h1>Weather map</h1>"

    return routes
'''
_BROKEN = '''
"""A plugin that cannot be loaded."""

from nekro_core.api.plugin import NekroPlugin

plugin = NekroPlugin("Broken", "broken", "Cannot be loaded.", "0.1", "ann", "")
number = int("<b>no number</b>")
'''


def write_plugins(folder: Path) -> None:
    """Write the plugins into the data folder before the bot starts."""
    for name, text in (("weather", _SOURCE), ("broken", _BROKEN)):
        place = folder / "plugins" / name
        place.mkdir(parents=True, exist_ok=True)
        (place / "__init__.py").write_text(text)


async def add_chat(app: App) -> None:
    """Store a message, so that there is a chat in which functions can be tried."""
    said = ChatMessage(
        chat_key=ChatKey.parse("fake-group_30003"),
        message_id="plugins-1",
        sender=Sender("10001", EVIL),
        segments=(Text("What is the weather like?"),),
        time=time.time(),
        account="bot",
    )
    await app.host.accept(said)
