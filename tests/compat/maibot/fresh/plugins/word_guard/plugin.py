from typing import Any

from maibot_sdk import (
    CONFIG_RELOAD_SCOPE_SELF,
    EventHandler,
    Field,
    HookHandler,
    MaiBotPlugin,
    PluginConfigBase,
)
from maibot_sdk.types import ErrorPolicy, EventType, HookMode, HookOrder


class _P(PluginConfigBase):
    config_version: str = "2.0"
    enabled: bool = True


class _G(PluginConfigBase):
    words: dict[str, str] = Field(default={"darn": "d**n"})
    banned: list[str] = ["forbidden"]


class Conf(PluginConfigBase):
    plugin: _P = Field(default_factory=_P)
    guard: _G = Field(default_factory=_G)


class Guard(MaiBotPlugin):
    config_model = Conf
    config_reload_subscriptions = ("bot",)

    def __init__(self):
        super().__init__()
        self.heard: list = []

    async def on_load(self):
        words = await self.ctx.config.get("guard.words", {})
        assert words == {"darn": "d**n"}, words
        assert (await self.ctx.config.get("nope", 7)) == 7

    async def on_unload(self):
        pass

    async def on_config_update(self, scope, config_data, version):
        if scope == CONFIG_RELOAD_SCOPE_SELF:
            return

    @HookHandler(
        "chat.receive.before_process",
        name="inbound",
        mode=HookMode.BLOCKING,
        order=HookOrder.EARLY,
        timeout_ms=2000,
        error_policy=ErrorPolicy.LOG,
    )
    async def inbound(self, message: dict | None = None, **kwargs: Any):
        text = (message or {}).get("processed_plain_text") or ""
        if any(b in text for b in self.config.guard.banned):
            return {"action": "abort"}
        if "darn" in text:
            changed = dict(message)
            changed["processed_plain_text"] = text.replace("darn", self.config.guard.words["darn"])
            changed["raw_message"] = [
                dict(s, data=s["data"].replace("darn", "d**n")) if s.get("type") == "text" else s
                for s in message["raw_message"]
            ]
            return {"action": "continue", "modified_kwargs": {"message": changed}}
        return None

    @HookHandler("send_service.before_send", description="outbound", error_policy=ErrorPolicy.SKIP)
    async def outbound(self, message=None, **kwargs):
        changed = dict(message)
        changed["raw_message"] = [
            dict(s, data=s["data"].replace("secret", "******")) if s.get("type") == "text" else s
            for s in message["raw_message"]
        ]
        changed["processed_plain_text"] = (message.get("processed_plain_text") or "").replace(
            "secret", "******"
        )
        return {"action": "continue", "modified_kwargs": {"message": changed}}

    @HookHandler("send_service.after_send", mode=HookMode.OBSERVE)
    async def after(self, **kwargs):
        self.heard.append(("after", sorted(kwargs)))

    @HookHandler("maisaka.planner.before_request", mode=HookMode.BLOCKING, error_policy="skip")
    async def bad(self, **kwargs):
        raise RuntimeError("a hook of mine is broken")

    @EventHandler("listener", description="hears", event_type=EventType.ON_MESSAGE, weight=10)
    async def listener(self, message=None, **kwargs):
        self.heard.append(("event", (message or {}).get("processed_plain_text")))
        return True, True, None

    @EventHandler("starter", event_type=EventType.ON_START)
    async def starter(self, **kwargs):
        self.heard.append(("start", None))


def create_plugin() -> Guard:
    return Guard()
