from maibot_sdk import API, MaiBotPlugin

RATES = {("EUR", "USD"): 1.1}


class Rates(MaiBotPlugin):
    async def on_load(self):
        self.register_dynamic_api("live", self._live, description="dynamic", public=True)
        await self.sync_dynamic_apis()

    async def on_unload(self):
        self.clear_dynamic_apis()

    async def on_config_update(self, scope, config_data, version):
        pass

    async def _live(self, pair: str = "", **kwargs):
        return {"pair": pair, "live": True}

    @API("convert", description="convert money", version="1", public=True)
    async def convert_v1(self, amount: float, source: str, target: str, **kwargs):
        return {"amount": amount * RATES[(source, target)], "v": 1}

    @API("convert", description="convert money", version="2", public=True)
    async def convert_v2(self, amount: float, source: str = "EUR", target: str = "USD", **kwargs):
        return {"amount": round(amount * RATES[(source, target)], 2), "v": 2}

    @API("internal_table", description="private", public=False)
    async def table(self, **kwargs):
        return dict(RATES)


def create_plugin():
    return Rates()
