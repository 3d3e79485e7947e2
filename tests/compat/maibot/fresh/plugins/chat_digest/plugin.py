"""群聊总结"""

from __future__ import annotations

import html
from typing import Any, ClassVar, Literal

from maibot_sdk import Command, Field, MaiBotPlugin, PluginConfigBase, Tool
from maibot_sdk.types import ToolParameterInfo, ToolParamType

from .render import page


class PluginSection(PluginConfigBase):
    __ui_label__ = "插件"
    __ui_icon__ = "package"
    __ui_order__ = 0
    enabled: bool = Field(default=True, description="启用")
    config_version: str = Field(default="1.1.0", json_schema_extra={"disabled": True})


class DigestSection(PluginConfigBase):
    __ui_label__ = "总结"
    limit: int = Field(
        default=20,
        ge=1,
        le=200,
        json_schema_extra={"label": "条数", "x-widget": "slider", "step": 10},
    )
    style: Literal["short", "long"] = Field(default="short", json_schema_extra={"hint": "风格"})
    ignored: list[str] = Field(default_factory=list, json_schema_extra={"placeholder": "QQ"})
    prompt: str = Field(
        default="Summarise in one line:\n{chat}",
        json_schema_extra={"input_type": "textarea", "rows": 4},
    )


class Conf(PluginConfigBase):
    plugin: PluginSection = Field(default_factory=PluginSection)
    digest: DigestSection = Field(default_factory=DigestSection)


class DigestPlugin(MaiBotPlugin):
    config_model: ClassVar = Conf

    async def on_load(self) -> None:
        self.ctx.logger.info("digest %s", self.config.digest.limit)

    async def on_unload(self) -> None: ...

    async def on_config_update(self, scope: str, config_data: dict, version: str) -> None:
        if scope == "self":
            self.ctx.logger.info("config is now %s", version)

    async def _digest(self, stream_id: str, limit: int) -> str:
        messages = await self.ctx.message.get_recent(stream_id, limit=limit)
        messages = [
            m
            for m in messages
            if m["message_info"]["user_info"]["user_id"] not in self.config.digest.ignored
        ]
        readable = await self.ctx.message.build_readable(messages, timestamp_mode="relative")
        result = await self.ctx.llm.generate(
            self.config.digest.prompt.format(chat=readable),
            model="utils",
            temperature=0.3,
            max_tokens=200,
        )
        if not result.get("success"):
            return f"失败: {result.get('error')}"
        return result["response"]

    @Command(
        "digest",
        description="总结群聊",
        pattern=r"^/(?:digest|总结)(?:\s+(?P<count>\d{1,3}))?$",
        aliases=["/zj"],
    )
    async def on_digest(
        self, stream_id: str = "", matched_groups: dict | None = None, **kwargs: Any
    ):
        limit = int((matched_groups or {}).get("count") or self.config.digest.limit)
        text = await self._digest(stream_id, limit)
        await self.ctx.send.text(text, stream_id, set_reply=False)
        return True, f"digested {limit}", True

    @Command(
        "digest_purge", description="仅管理员", pattern=r"^/digest purge$", permission="operator"
    )
    async def purge(self, stream_id: str = "", **kwargs: Any):
        await self.ctx.send.text("purged", stream_id)
        return True, None, 2

    @Tool(
        "chat_digest",
        brief_description="Summarise the recent chat",
        detailed_description="Sums up what was said.",
        parameters=[
            ToolParameterInfo(
                name="limit",
                param_type=ToolParamType.INTEGER,
                description="how many",
                required=False,
                default=10,
            ),
            ToolParameterInfo(
                name="as_image", param_type="boolean", description="as a picture", required=False
            ),
        ],
        core_tool=True,
    )
    async def tool(self, limit: int = 10, as_image: bool = False, **kwargs):
        stream_id = kwargs["stream_id"]
        text = await self._digest(stream_id, limit)
        if as_image:
            picture = await self.ctx.render.html2png(
                page(html.escape(text)), selector="#card", viewport={"width": 400, "height": 300}
            )
            data = (
                picture.get("image_base64")
                or picture.get("png_base64")
                or picture.get("base64")
                or ""
            )
            if not data:
                return {"success": False, "error": picture.get("error", "no image")}
            await self.ctx.send.image(data, stream_id)
        return {"success": True, "content": text, "asked_by": kwargs.get("user_id")}


def create_plugin():
    return DigestPlugin()
