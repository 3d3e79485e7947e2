import time

from maibot_sdk import Command, MaiBotPlugin, MessageGateway


class Bridge(MaiBotPlugin):
    async def on_load(self):
        self.out = []
        await self.ctx.gateway.update_state(
            "irc",
            ready=True,
            platform="irc",
            account_id="maibot",
            scope="libera",
            metadata={"nick": "mai"},
        )

    async def on_unload(self):
        await self.ctx.gateway.update_state(
            "irc", ready=False, platform="irc", account_id="maibot", scope="libera"
        )

    async def on_config_update(self, scope, config_data, version):
        pass

    @MessageGateway(
        "duplex",
        name="irc",
        description="IRC",
        platform="irc",
        protocol="irc",
        account_id="maibot",
        scope="libera",
    )
    async def send_irc(self, message: dict, route: dict, metadata: dict | None = None, **kwargs):
        self.out.append((message, route))
        return {"success": True, "external_message_id": f"irc-{len(self.out)}"}

    async def heard(self, nick: str, line: str):
        return await self.ctx.gateway.route_message(
            "irc",
            {
                "message_id": f"{nick}-{time.time()}",
                "timestamp": str(time.time()),
                "platform": "irc",
                "message_info": {
                    "user_info": {"user_id": nick, "user_nickname": nick},
                    "group_info": {"group_id": "#mai", "group_name": "#mai"},
                    "additional_config": {},
                },
                "raw_message": [{"type": "text", "data": line}],
                "is_mentioned": True,
                "is_at": True,
                "is_emoji": False,
                "is_picture": False,
                "is_command": False,
                "is_notify": False,
                "session_id": "",
                "processed_plain_text": line,
            },
            external_message_id=f"x-{time.time()}",
            dedupe_key=line,
        )


def create_plugin():
    return Bridge()
