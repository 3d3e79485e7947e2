"""夜猫子管家。

事件负责“数”，Hook 负责“改”，两边互不依赖。
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import Any

from maibot_sdk import Command, EventHandler, Field, HookHandler, MaiBotPlugin, PluginConfigBase
from maibot_sdk.types import ErrorPolicy, EventType, HookMode, HookOrder

PHONE = re.compile(r"(?<!\d)(1[3-9]\d)\d{4}(\d{4})(?!\d)")


class PluginSection(PluginConfigBase):
    __ui_label__ = "插件"

    enabled: bool = Field(default=True, description="是否启用")
    config_version: str = Field(default="1.0.0", description="配置版本")


class GuardSection(PluginConfigBase):
    __ui_label__ = "拦截"

    ad_words: list[str] = Field(
        default_factory=lambda: ["免费领皮肤"], description="广告词，整条拦截"
    )
    secret_words: list[str] = Field(
        default_factory=lambda: ["内部代号"], description="麦麦不能说的词"
    )
    nicknames: dict[str, str] = Field(
        default_factory=lambda: {"小猫咪": "夜猫子"}, description="入站改写：旧词 = 新词"
    )


class NightOwlConfig(PluginConfigBase):
    plugin: PluginSection = Field(default_factory=PluginSection)
    guard: GuardSection = Field(default_factory=GuardSection)


def plain_text(message: Any) -> str:
    """几代主程序的消息字典都能取到文字。"""
    if not isinstance(message, dict):
        return ""
    for key in ("processed_plain_text", "plain_text"):
        value = message.get(key)
        if isinstance(value, str) and value:
            return value
    parts = []
    for segment in message.get("raw_message") or message.get("message_segments") or []:
        if isinstance(segment, dict) and segment.get("type") == "text":
            data = segment.get("data")
            parts.append(data if isinstance(data, str) else str((data or {}).get("text", "")))
    return "".join(parts)


def rewrite_text(message: dict[str, Any], change) -> dict[str, Any]:
    """对消息里的每一段文字做 change，返回新的消息。"""
    new = dict(message)
    segments = []
    for segment in message.get("raw_message") or []:
        if isinstance(segment, dict) and segment.get("type") == "text":
            data = segment.get("data")
            if isinstance(data, str):
                segment = {**segment, "data": change(data)}
            elif isinstance(data, dict):
                segment = {**segment, "data": {**data, "text": change(str(data.get("text", "")))}}
        segments.append(segment)
    new["raw_message"] = segments
    if isinstance(message.get("processed_plain_text"), str):
        new["processed_plain_text"] = change(message["processed_plain_text"])
    return new


class NightOwlPlugin(MaiBotPlugin):
    config_model = NightOwlConfig

    def __init__(self) -> None:
        super().__init__()
        self.started = False
        self.blocked = 0
        self.sent = 0
        self.commands: Counter[str] = Counter()
        self.talk: dict[str, Counter[str]] = defaultdict(Counter)

    async def on_load(self) -> None:
        self.ctx.logger.info("夜猫子管家已加载，广告词 %d 个", len(self.config.guard.ad_words))

    async def on_unload(self) -> None:
        self.talk.clear()

    async def on_config_update(self, scope: str, config_data: dict[str, Any], version: str) -> None:
        del config_data
        self.ctx.logger.info("夜猫子配置更新 scope=%s version=%s", scope, version)

    # ───────────── 事件 ─────────────

    @EventHandler("owl_start", description="启动时报到", event_type=EventType.ON_START)
    async def handle_start(self, **kwargs: Any):
        self.started = True
        self.ctx.logger.info("夜猫子上线")
        return True, True, "启动完成", None, None

    @EventHandler(
        "owl_ad_guard",
        event_type=EventType.ON_MESSAGE_PRE_PROCESS,
        intercept_message=True,
        weight=100,
    )
    async def handle_ads(self, message: Any = None, **kwargs: Any):
        text = kwargs.get("plain_text") or plain_text(message)
        if any(word in text for word in self.config.guard.ad_words):
            self.blocked += 1
            self.ctx.logger.info("拦下一条广告")
            return {"blocked": True}
        return None

    @EventHandler("owl_counter", event_type=EventType.ON_MESSAGE)
    async def handle_count(self, message: Any = None, stream_id: str = "", **kwargs: Any):
        if not isinstance(message, dict):
            return
        info = message.get("message_info") or message.get("message_base_info") or {}
        user = info.get("user_info") or info
        stream = stream_id or message.get("session_id") or message.get("stream_id") or ""
        self.talk[str(stream)][str(user.get("user_id", "?"))] += 1

    # ───────────── Hook ─────────────

    @HookHandler(
        "chat.receive.before_process",
        name="owl_nicknames",
        mode=HookMode.BLOCKING,
        order=HookOrder.EARLY,
    )
    async def rename(self, message: dict[str, Any] | None = None, **kwargs: Any):
        names = self.config.guard.nicknames
        if not isinstance(message, dict) or not any(old in plain_text(message) for old in names):
            return {"action": "continue"}

        def change(text: str) -> str:
            for old, new in names.items():
                text = text.replace(old, new)
            return text

        kwargs["message"] = rewrite_text(message, change)
        return {"action": "continue", "modified_kwargs": kwargs}

    @HookHandler(
        "send_service.after_build_message",
        name="owl_mask",
        mode=HookMode.BLOCKING,
        timeout_ms=3000,
        error_policy=ErrorPolicy.SKIP,
    )
    async def mask(self, message: dict[str, Any], stream_id: str = "", **kwargs: Any):
        if not PHONE.search(plain_text(message)):
            return {"action": "continue"}
        masked = rewrite_text(message, lambda text: PHONE.sub(r"\1****\2", text))
        return {"action": "continue", "modified_kwargs": {"message": masked}}

    @HookHandler("send_service.before_send", name="owl_secrets")
    async def keep_secrets(self, **kwargs: Any):
        text = plain_text(kwargs.get("message"))
        if any(word in text for word in self.config.guard.secret_words):
            self.ctx.logger.warning("麦麦差点说漏嘴")
            return {"action": "abort"}
        return {"action": "continue", "modified_kwargs": kwargs}

    @HookHandler(
        "send_service.after_send", name="owl_sent", mode=HookMode.OBSERVE, order=HookOrder.LATE
    )
    async def count_sent(self, message: Any = None, sent: bool = False, **kwargs: Any) -> None:
        self.sent += bool(sent)

    @HookHandler("chat.command.before_execute", name="owl_command")
    async def note_command(self, **kwargs: Any):
        self.commands[str(kwargs.get("command_name") or "?")] += 1
        return None

    # ───────────── 命令 ─────────────

    @Command("owl_talkers", description="话痨榜", pattern=r"^/话痨榜$")
    async def handle_talkers(self, stream_id: str = "", **kwargs: Any):
        top = self.talk[stream_id].most_common(3)
        text = "话痨榜：" + ("、".join(f"{user}×{count}" for user, count in top) or "没人说话")
        await self.ctx.send.text(text, stream_id)
        return True, text, True

    @Command("owl_status", description="管家状态", pattern=r"^/夜猫状态$")
    async def handle_status(self, stream_id: str = "", **kwargs: Any):
        text = f"启动={self.started} 拦截={self.blocked} 发送={self.sent} 命令={sum(self.commands.values())}"
        await self.ctx.send.text(text, stream_id)
        return True, text, True


def create_plugin() -> NightOwlPlugin:
    return NightOwlPlugin()
