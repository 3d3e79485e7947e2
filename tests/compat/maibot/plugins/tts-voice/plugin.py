"""Sends a voice message. It has a core tool and a configuration with a form, and it sends the sound
as base64."""

import base64
import io
import math
import struct
import wave

from maibot_sdk import Field, MaiBotPlugin, PluginConfigBase, Tool
from maibot_sdk.types import ToolParameterInfo, ToolParamType


class PluginSection(PluginConfigBase):
    """插件"""

    __ui_label__ = "插件"
    __ui_icon__ = "package"
    __ui_order__ = 0

    enabled: bool = Field(default=True, description="是否启用")
    config_version: str = Field(default="1.0.0", description="配置版本")


class VoiceSection(PluginConfigBase):
    """语音"""

    __ui_label__ = "语音"
    __ui_order__ = 1

    pitch: int = Field(
        default=440,
        ge=100,
        le=2000,
        description="音高",
        json_schema_extra={"label": "音高", "hint": "Hz", "x-widget": "slider", "step": 10},
    )
    greeting: str = Field(default="你好", json_schema_extra={"placeholder": "你好"})


class VoiceConfig(PluginConfigBase):
    plugin: PluginSection = Field(default_factory=PluginSection)
    voice: VoiceSection = Field(default_factory=VoiceSection)


class TTSPlugin(MaiBotPlugin):
    config_model = VoiceConfig

    async def on_load(self) -> None:
        self.changes = []
        self.ctx.logger.info("voice ready at %s Hz", self.config.voice.pitch)

    async def on_unload(self) -> None:
        self.ctx.logger.info("bye")

    async def on_config_update(self, scope, config_data, version) -> None:
        self.changes.append((scope, config_data["voice"]["pitch"], version))

    @Tool(
        "speak_aloud",
        description="把文字合成为语音并发送到当前聊天",
        core_tool=True,
        parameters=[
            ToolParameterInfo(name="text", param_type=ToolParamType.STRING, description="要说的话"),
            ToolParameterInfo(
                name="speed",
                param_type=ToolParamType.FLOAT,
                description="语速",
                required=False,
                default=1.0,
            ),
        ],
    )
    async def handle_speak(self, text: str, speed: float = 1.0, stream_id: str = "", **kwargs):
        if not text.strip():
            return {"success": False, "error": "没有文字"}
        voice = base64.b64encode(self._wav(len(text) / speed)).decode()
        sent = await self.ctx.send.custom("voice", voice, stream_id)
        if not sent:
            await self.ctx.send.text(text, stream_id)
        return {
            "success": True,
            "stop_after_execution": sent,
            "content": f"said {len(text)} characters at {self.config.voice.pitch}",
        }

    def _wav(self, beats: float) -> bytes:
        held = io.BytesIO()
        with wave.open(held, "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(8000)
            frames = range(int(800 * beats))
            pitch = self.config.voice.pitch
            file.writeframes(
                b"".join(
                    struct.pack("<h", int(9000 * math.sin(2 * math.pi * pitch * n / 8000)))
                    for n in frames
                )
            )
        return held.getvalue()


def create_plugin():
    return TTSPlugin()
