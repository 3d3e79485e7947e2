"""An event handler that keeps the bot from answering some messages."""

from maibot_sdk import EventHandler, MaiBotPlugin
from maibot_sdk.types import EventType


class QuietHours(MaiBotPlugin):
    async def on_load(self) -> None:
        pass

    async def on_unload(self) -> None:
        pass

    async def on_config_update(self, scope, config_data, version) -> None:
        pass

    @EventHandler("quiet_hours", event_type=EventType.ON_MESSAGE, intercept_message=True, weight=10)
    async def quiet_hours(self, message=None, **kwargs):
        return {"success": True, "continue_processing": "zzz" not in message["plain_text"]}


def create_plugin():
    return QuietHours()
