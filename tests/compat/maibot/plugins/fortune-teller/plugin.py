"""Calls another plugin's API, and reads the stored chats and its own unparsed configuration."""

from maibot_sdk import MaiBotPlugin, Tool


class FortuneTeller(MaiBotPlugin):
    async def on_load(self) -> None:
        self.known = [each["full_name"] for each in await self.ctx.api.list()]

    async def on_unload(self) -> None:
        pass

    async def on_config_update(self, scope, config_data, version) -> None:
        pass

    @Tool(
        "tell_fortune",
        description="Tell somebody's fortune.",
        parameters={"name": {"type": "string", "required": True}},
    )
    async def handle_fortune(self, name: str, stream_id: str = "", user_id: str = "", **kwargs):
        told = await self.ctx.api.call("kei.fortune-api.draw", name=name)
        if not told or "fortune" not in told:
            return {"success": False, "error": str(told)}
        prefix = await self.ctx.config.get("style.prefix", "")
        await self.ctx.send.text(f"{prefix}{told['fortune']}", stream_id)
        return {"asked_by": user_id, "count": await self.ctx.api.call("kei.fortune-api.count")}

    @Tool("try_to_rig", description="Calls what is private.")
    async def handle_rig(self, **kwargs):
        return await self.ctx.api.call("kei.fortune-api.rig")

    @Tool("groups", description="Lists groups and models.")
    async def handle_groups(self, **kwargs):
        streams = await self.ctx.chat.get_group_streams("all")
        return {
            "groups": [each["group_id"] for each in streams],
            "models": await self.ctx.llm.get_available_models(),
            "own": await self.ctx.config.get_plugin(),
            "others": await self.ctx.config.get_plugin("kei.fortune-api"),
        }

    @Tool("whisper", description="Uses what its manifest does not name.")
    async def handle_whisper(self, stream_id: str = "", **kwargs):
        await self.ctx.send.image("aGk=", stream_id)

    @Tool(
        "elsewhere", description="Writes to another chat.", parameters={"where": {"type": "string"}}
    )
    async def handle_elsewhere(self, where: str, **kwargs):
        return {"sent": await self.ctx.send.text("hello over there", where)}


def create_plugin():
    return FortuneTeller()
