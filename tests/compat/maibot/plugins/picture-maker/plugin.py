"""Makes pictures. It has a tool that returns content items to the model. It also has an `Action`,
which is MaiBot's older form of a tool, and imports a helper module."""

from base64 import b64encode

from maibot_sdk import Action, MaiBotPlugin, Tool
from maibot_sdk.types import ActivationType, ToolParameterInfo, ToolParamType

from .painting import paint


class PicturePlugin(MaiBotPlugin):
    async def on_load(self) -> None:
        pass

    async def on_unload(self) -> None:
        pass

    async def on_config_update(self, scope, config_data, version) -> None:
        pass

    @Tool(
        "make_picture",
        brief_description="根据描述生成一张图片",
        detailed_description="Draws a small picture of one colour and shows it.",
        parameters=[
            ToolParameterInfo(name="prompt", description="what to draw"),
            ToolParameterInfo(
                name="color",
                param_type=ToolParamType.STRING,
                enum_values=["red", "green", "blue"],
                required=False,
                default="red",
            ),
            ToolParameterInfo(name="tags", param_type=ToolParamType.ARRAY, required=False),
        ],
        visibility="visible",
    )
    async def handle_make(self, prompt: str, color: str = "red", **kwargs):
        image = paint(color)
        return {
            "success": True,
            "content": f"A {color} picture of {prompt} has been made.",
            "content_items": [
                {"type": "text", "text": f"prompt: {prompt}"},
                {
                    "content_type": "image",
                    "base64": b64encode(image).decode().rstrip("="),
                    "mime_type": "image/png",
                    "name": "result.png",
                    "description": f"a {color} square",
                },
            ],
        }

    @Action(
        "send_meme",
        description="发送表情图",
        activation_type=ActivationType.KEYWORD,
        activation_keywords=["哈哈"],
        action_parameters={"mood": "当前情绪"},
        action_require=["气氛轻松时使用"],
        associated_types=["image"],
    )
    async def handle_meme(self, mood: str = "", stream_id: str = "", action_data=None, **kwargs):
        await self.ctx.send.image(b64encode(paint("green")).decode(), stream_id)
        await self.ctx.maisaka.context.append(
            stream_id, [{"type": "text", "data": f"sent a meme: {mood}"}], source_kind="meme"
        )
        return True, f"meme for {action_data['mood']}"


def create_plugin():
    return PicturePlugin()
