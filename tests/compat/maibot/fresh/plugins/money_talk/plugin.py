from maibot_sdk import Command, MaiBotPlugin, Tool


class Money(MaiBotPlugin):
    async def on_load(self):
        pass

    async def on_unload(self):
        pass

    async def on_config_update(self, scope, config_data, version):
        pass

    @Tool(
        "exchange",
        brief_description="Exchange money",
        core_tool=True,
        parameters={
            "type": "object",
            "properties": {"amount": {"type": "number", "description": "EUR"}},
            "required": ["amount"],
        },
    )
    async def exchange(self, amount: float, **kwargs):
        two = await self.ctx.api.call("fx.rates_api.convert", version="2", amount=amount)
        one = await self.ctx.api.call(
            "fx.rates_api.convert", version="1", amount=amount, source="EUR", target="USD"
        )
        live = await self.ctx.api.call("fx.rates_api.live", pair="EURUSD")
        try:
            private = await self.ctx.api.call("fx.rates_api.internal_table")
            hidden = "error" in private or private.get("success") is False
        except Exception as e:
            hidden = True
        apis = await self.ctx.api.list()
        names = sorted({a.get("name", "") for a in apis})
        models = await self.ctx.llm.get_available_models()
        vec = await self.ctx.llm.embed("money")
        return {
            "two": two,
            "one_v": one["v"],
            "live": live["live"],
            "hidden": hidden,
            "names": names,
            "models": bool(models),
            "vec": bool(vec.get("embedding")),
        }

    @Command(
        "fx", pattern=r"^/fx\s+(?P<amount>[\d.]+)\s*(?P<cur>[A-Z]{3})$", description="exchange"
    )
    async def fx(
        self,
        matched_groups=None,
        stream_id="",
        user_id="",
        text="",
        is_local_operator=False,
        **kwargs,
    ):
        g = matched_groups
        if g["cur"] != "EUR":
            return False, f"cannot {g['cur']}", True
        r = await self.ctx.call_capability(
            "api.call",
            api_name="fx.rates_api.convert",
            version="2",
            args={"amount": float(g["amount"])},
        )
        await self.ctx.call_capability(
            "send.text", text=f"{text} by {user_id}", stream_id=stream_id
        )
        return True, "ok", True


def create_plugin():
    return Money()
