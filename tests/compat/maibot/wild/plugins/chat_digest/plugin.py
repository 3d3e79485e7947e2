"""余晖聊天摘要：ctx.llm 的各种用法 + planner Hook。"""

from __future__ import annotations

import json
from typing import Any

from maibot_sdk import Command, HookHandler, MaiBotPlugin, Tool
from maibot_sdk.types import HookMode, HookOrder, ToolParameterInfo, ToolParamType

from . import prompts

HOT_WORDS = ("吵", "气死", "烦死")


class ChatDigestPlugin(MaiBotPlugin):
    def __init__(self) -> None:
        super().__init__()
        self.mood: dict[str, str] = {}
        self.answers_seen = 0

    async def on_load(self) -> None:
        models = await self.ctx.llm.get_available_models()
        self.task = "utils" if "utils" in models else ""
        self.ctx.logger.info("聊天摘要已加载，可用任务：%s", "、".join(models) or "无")

    async def on_unload(self) -> None:
        self.mood.clear()

    async def on_config_update(self, scope: str, config_data: dict[str, Any], version: str) -> None:
        del scope, config_data, version

    # ===== 内部 =====

    async def _digest(self, stream_id: str, limit: int) -> tuple[bool, str]:
        recent = await self.ctx.message.get_recent(chat_id=stream_id, limit=limit)
        if not isinstance(recent, list) or not recent:
            return False, "没有可以总结的消息"
        history = await self.ctx.message.build_readable(recent, timestamp_mode="relative")
        if not isinstance(history, str):
            return False, "聊天记录格式化失败"
        result = await self.ctx.llm.generate(
            prompt=[
                {"role": "system", "content": prompts.DIGEST_SYSTEM},
                {"role": "user", "content": prompts.DIGEST_USER.format(history=history)},
            ],
            model=self.task,
            temperature=0.3,
            max_tokens=400,
        )
        if not result.get("success"):
            self.ctx.logger.warning("摘要失败: %s", result.get("error"))
            return False, "模型没理我，等会儿再试"
        return True, str(result.get("response") or "").strip()

    # ===== 命令 =====

    @Command("digest", description="总结最近的聊天", pattern=r"^/总结(?:\s+(?P<n>\d{1,3}))?$")
    async def handle_digest(
        self, stream_id: str = "", matched_groups: dict | None = None, **kwargs
    ):
        limit = int((matched_groups or {}).get("n") or 20)
        ok, text = await self._digest(stream_id, limit)
        await self.ctx.send.text(f"📝 {text}" if ok else text, stream_id)
        return ok, text, True

    @Command("classify", description="给一句话归类", pattern=r"^/归类\s+(?P<text>.+)$")
    async def handle_classify(
        self, stream_id: str = "", matched_groups: dict | None = None, **kwargs
    ):
        text = (matched_groups or {}).get("text", "")
        result = await self.ctx.llm.generate_with_tools(
            prompt=prompts.CLASSIFY.format(text=text), tools=[prompts.LABEL_TOOL], temperature=0
        )
        label = ""
        for call in result.get("tool_calls") or []:
            function = call.get("function", {})
            if function.get("name") != "put_label":
                continue
            arguments = function.get("arguments")
            if isinstance(arguments, str):
                arguments = json.loads(arguments)
            label = (arguments or {}).get("label", "")
        answer = f"「{text}」属于：{label}" if label else "分不出来"
        await self.ctx.send.text(answer, stream_id)
        return True, answer, True

    # ===== 工具 =====

    @Tool(
        "summarize_chat",
        description="总结当前聊天最近的若干条消息，返回摘要文字",
        parameters=[
            ToolParameterInfo(
                name="limit",
                param_type=ToolParamType.INTEGER,
                description="看多少条消息",
                required=False,
                default=20,
            ),
        ],
    )
    async def handle_summarize(self, limit: int = 20, stream_id: str = "", **kwargs: Any):
        ok, text = await self._digest(stream_id, limit)
        return {"success": ok, "content" if ok else "error": text}

    # ===== Hook =====

    @HookHandler("chat.receive.after_process", name="digest_mood", mode=HookMode.OBSERVE)
    async def watch_mood(self, message: dict[str, Any] | None = None, **kwargs: Any) -> None:
        if not isinstance(message, dict):
            return
        text = str(message.get("processed_plain_text") or "")
        session = str(message.get("session_id") or "")
        if any(word in text for word in HOT_WORDS):
            self.mood[session] = "火药味很重"

    @HookHandler(
        "maisaka.planner.before_request",
        name="digest_mood_note",
        description="在规划器请求前插入一条气氛说明",
        mode=HookMode.BLOCKING,
        order=HookOrder.LATE,
        timeout_ms=2000,
    )
    async def add_mood_note(self, session_id: str = "", messages: Any = None, **kwargs: Any):
        mood = self.mood.get(str(session_id))
        if not mood or not isinstance(messages, list):
            return {"action": "continue"}
        note = {"role": "user", "content": prompts.MOOD_NOTE.format(mood=mood)}
        kwargs.update(session_id=session_id, messages=[*messages, note])
        return {"action": "continue", "modified_kwargs": kwargs}

    @HookHandler("maisaka.planner.after_response", name="digest_count", mode=HookMode.BLOCKING)
    async def count_answers(self, **kwargs: Any):
        self.answers_seen += 1
        self.ctx.logger.info("看到第 %d 次规划器响应", self.answers_seen)
        return {"modified_kwargs": kwargs}


def create_plugin() -> ChatDigestPlugin:
    return ChatDigestPlugin()
