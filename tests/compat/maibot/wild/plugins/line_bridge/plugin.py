"""Line Bridge: a tiny gateway for terminals, ESP32 toys and whatever else can open a socket.

Inbound   {"from": "alice", "name": "Alice", "text": "hi", "room": "kitchen"}
Outbound  {"to": "alice", "room": "kitchen", "text": "hello"}

Leave out "room" for a private talk.
"""

import asyncio
import itertools
import json
import time
from typing import Any, ClassVar

from maibot_sdk import Field, MaiBotPlugin, MessageGateway, PluginConfigBase

GATEWAY = "line_bridge"
PLATFORM = "line"
ACCOUNT = "line-bot"


class PluginOptions(PluginConfigBase):
    """About the plugin itself."""

    __ui_label__ = "Plugin"

    enabled: bool = Field(default=True, description="Switch the plugin on")
    config_version: str = Field(default="1.0.0", description="Version of this file")


class ServerOptions(PluginConfigBase):
    """Where the bridge listens."""

    __ui_label__ = "Server"

    host: str = Field(default="127.0.0.1", description="Address to listen on")
    port: int = Field(default=7711, ge=0, le=65535, description="0 takes a free port")
    greeting: str = Field(default="line-bridge ready", description="First line for a new client")


class LineBridgeConfig(PluginConfigBase):
    """All options."""

    plugin: PluginOptions = Field(default_factory=PluginOptions)
    server: ServerOptions = Field(default_factory=ServerOptions)


class LineBridgePlugin(MaiBotPlugin):
    """The gateway."""

    config_model: ClassVar[type[PluginConfigBase] | None] = LineBridgeConfig

    def __init__(self) -> None:
        super().__init__()
        self._server: asyncio.AbstractServer | None = None
        self._clients: set[asyncio.StreamWriter] = set()
        self._numbers = itertools.count(1)

    async def on_load(self) -> None:
        options = self.config.server
        self._server = await asyncio.start_server(self._serve, options.host, options.port)
        port = self._server.sockets[0].getsockname()[1]
        ready = await self.ctx.gateway.update_state(
            GATEWAY,
            ready=True,
            platform=PLATFORM,
            account_id=ACCOUNT,
            scope="default",
            metadata={"protocol": "json-lines", "port": port},
        )
        self.ctx.logger.info("line bridge listens on port %s (accepted: %s)", port, ready)

    async def on_unload(self) -> None:
        await self.ctx.gateway.update_state(GATEWAY, ready=False, platform=PLATFORM)
        if self._server is not None:
            self._server.close()
        for writer in list(self._clients):
            writer.close()
        self._clients.clear()

    async def on_config_update(self, scope: str, config_data: dict[str, Any], version: str) -> None:
        if scope == "self":
            self.ctx.logger.warning("the new port counts after a reload")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients.add(writer)
        try:
            await self._write(writer, {"text": self.config.server.greeting})
            while line := await reader.readline():
                try:
                    data = json.loads(line)
                except ValueError:
                    await self._write(writer, {"error": "not a line of JSON"})
                    continue
                accepted = await self._inject(data)
                if not accepted:
                    await self._write(writer, {"error": "the host did not take it"})
        except ConnectionError:
            pass
        finally:
            self._clients.discard(writer)
            writer.close()

    async def _inject(self, data: dict[str, Any]) -> bool:
        text = str(data.get("text") or "")
        sender = str(data.get("from") or "somebody")
        room = str(data.get("room") or "")
        number = f"line-{int(time.time())}-{next(self._numbers)}"
        info: dict[str, Any] = {
            "user_info": {
                "user_id": sender,
                "user_nickname": str(data.get("name") or sender),
                "user_cardname": None,
            },
            "additional_config": {"platform_io_target_user_id": sender},
        }
        if room:
            info["group_info"] = {"group_id": room, "group_name": f"room {room}"}
            info["additional_config"] = {"platform_io_target_group_id": room}
        return await self.ctx.gateway.route_message(
            GATEWAY,
            {
                "message_id": number,
                "timestamp": str(time.time()),
                "platform": PLATFORM,
                "message_info": info,
                "raw_message": [{"type": "text", "data": text}],
                "is_mentioned": True,
                "is_at": not room,
                "is_emoji": False,
                "is_picture": False,
                "is_command": text.startswith("/"),
                "is_notify": False,
                "session_id": "",
                "processed_plain_text": text,
            },
            route_metadata={"self_id": ACCOUNT, "connection_id": "default"},
            external_message_id=number,
            dedupe_key=number,
        )

    @MessageGateway(
        "duplex",
        name=GATEWAY,
        platform=PLATFORM,
        protocol="json-lines",
        account_id=ACCOUNT,
        scope="default",
        description="One JSON object per line",
    )
    async def deliver(
        self,
        message: dict[str, Any],
        route: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """The host wants something said."""
        if not self._clients:
            return {"success": False, "error": "nobody is connected"}
        info = message.get("message_info") or {}
        extra = info.get("additional_config") or {}
        group = (info.get("group_info") or {}).get("group_id") or extra.get(
            "platform_io_target_group_id"
        )
        reply = {
            "to": extra.get("platform_io_target_user_id") or "",
            "room": group or "",
            "text": message.get("processed_plain_text") or self._words(message),
        }
        for writer in list(self._clients):
            await self._write(writer, reply)
        return {"success": True, "external_message_id": f"line-out-{next(self._numbers)}"}

    @staticmethod
    def _words(message: dict[str, Any]) -> str:
        found = []
        for segment in message.get("raw_message") or []:
            if segment.get("type") == "text":
                data = segment.get("data")
                found.append(data if isinstance(data, str) else data.get("text", ""))
        return "".join(found)

    @staticmethod
    async def _write(writer: asyncio.StreamWriter, data: dict[str, Any]) -> None:
        writer.write(json.dumps(data, ensure_ascii=False).encode() + b"\n")
        await writer.drain()


def create_plugin() -> LineBridgePlugin:
    return LineBridgePlugin()
