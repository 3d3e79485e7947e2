"""APIs for other plugins: a public one, a private one, and one that is added at run time."""

from maibot_sdk import API, MaiBotPlugin


class FortuneAPI(MaiBotPlugin):
    async def on_load(self) -> None:
        self.register_dynamic_api("count", self._count, description="how many", public=True)
        self.asked = 0

    async def on_unload(self) -> None:
        self.clear_dynamic_apis()

    async def on_config_update(self, scope, config_data, version) -> None:
        pass

    @API("draw", description="抽签", version="1", public=True)
    async def handle_draw(self, name: str = "", **kwargs):
        self.asked += 1
        answer = await self.ctx.llm.generate(f"One line of fortune for {name}.", temperature=0.3)
        if not answer["success"]:
            raise RuntimeError(answer["error"])
        return {"name": name, "fortune": answer["response"].strip(), "model": answer["model"]}

    @API("rig", description="作弊", public=False)
    async def handle_rig(self, **kwargs):
        return "rigged"

    async def _count(self, **kwargs):
        return self.asked


def create_plugin():
    return FortuneAPI()
