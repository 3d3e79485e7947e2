"""Writes the plugins, the MCP server, the documents and the settings of the bot in the pictures."""

import json
from pathlib import Path

_WEATHER = '''
"""Forecasts for the cities of the chats."""

from typing import Literal

from nekro_core.api.plugin import ConfigBase, ExtraField, NekroPlugin, SandboxMethodType
from nekro_core.api.schemas import AgentCtx
from pydantic import Field

plugin = NekroPlugin(
    name="Weather",
    module_name="weather",
    description="Tells the weather of today and of the next days.",
    version="1.4.0",
    author="amelie",
    url="https://example.org/amelie/weather",
)


@plugin.mount_config()
class WeatherConfig(ConfigBase):
    """The settings of the plugin."""

    CITY: str = Field(
        default="Lyon", title="Home city", description="Used if nobody names a city."
    )
    API_KEY: str = Field(
        default="",
        title="API key",
        description="Of the weather service. It is not needed for up to 1,000 requests a day.",
        json_schema_extra=ExtraField(is_secret=True).model_dump(),
    )
    DAYS: int = Field(default=3, title="Days", description="How far ahead to look.", ge=1, le=10)
    UNITS: Literal["metric", "imperial"] = Field(default="metric", title="Units")
    WARN: bool = Field(default=True, title="Warn of storms", description="Before each answer.")
    ALIASES: list[str] = Field(
        default=["home", "the trail"], title="Other names for the home city"
    )


@plugin.mount_sandbox_method(
    SandboxMethodType.TOOL, name="forecast", description="Tells the weather of a city."
)
async def forecast(_ctx: AgentCtx, city: str, days: int = 1) -> str:
    """Tell the weather of a city.

    Args:
        city: The name of the city, in any language.
        days: How many days ahead, at most 10.

    Returns:
        One line for each day.
    """
    days = max(1, min(days, 10))
    return "\\n".join(f"{city}, day {day + 1}: light rain, 9 to 14 °C" for day in range(days))
'''
_NEWS = '''
"""Headlines of local newspapers."""

import feedreader_of_yesterday

from nekro_core.api.plugin import NekroPlugin

plugin = NekroPlugin("Headlines", "headlines", "Reads local news.", "0.3.0", "tom", "")
'''
_LIBRARY = '''
"""An MCP server for the catalogue of a small library."""

from mcp.server.mcpserver import MCPServer

server = MCPServer("library")


@server.tool()
def search_books(words: str, language: str = "any") -> list[str]:
    """Search the catalogue by title, author or subject."""
    return [f"{words}: no copy in {language}"]


@server.tool()
def borrow_book(book_id: int, reader: str) -> str:
    """Reserve a copy for a reader."""
    return f"book {book_id} waits for {reader}"


@server.tool()
def opening_hours(day: str) -> str:
    """Tell when the library is open."""
    return f"{day}: 10 to 19"


server.run()
'''
_SETTINGS = """# Mei, the bot of the reading club

[agent]
names = ["Mei", "小梅"]

[command]
super_users = ["onebot_v11:70101"]

[agent.prompt]
history = 80

[agent.turn]
user_turns_a_day = 80

[roles]
max_price = 2.0
"""
_MAP = """# Where the trail runners meet

## The bridge

On Sundays at 8 o'clock, under the lamp on the east side. There is a tap for water.

## The quarry

Keep to the left of the fence. The path on the right ends at the cliff.
"""
_LOANS = """title,reader,until
城南旧事,林晓,2026-12-02
The Left Hand of Darkness,Priya,2026-12-09
雪国,田中さくら,2026-12-16
"""


def write_files(data: Path) -> None:
    """Write the files into the data folder, before the bot starts."""
    for name, text in (("weather", _WEATHER), ("headlines", _NEWS)):
        (data / "plugins" / name).mkdir(parents=True)
        (data / "plugins" / name / "__init__.py").write_text(text)
    knowledge = data / "knowledge" / "bot"
    knowledge.mkdir(parents=True)
    (knowledge / "trail-map.md").write_text(_MAP)
    (knowledge / "loans.csv").write_text(_LOANS)
    (data / "library.py").write_text(_LIBRARY)
    servers = {
        "library": {"command": "python3", "args": [str(data / "library.py")]},
        "calendar": {"url": "https://mcp.example.org/calendar", "disabled": True},
    }
    (data / "mcp.json").write_text(json.dumps({"mcpServers": servers}, indent=2))
    (data / "settings.toml").write_text(_SETTINGS)
