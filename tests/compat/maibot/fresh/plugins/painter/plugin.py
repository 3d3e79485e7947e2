import asyncio
import base64
import io
import json
import warnings

from maibot_sdk import Action, MaiBotPlugin, Tool
from maibot_sdk.types import ActivationType, ChatMode
from maibot_sdk.types import ToolParameterInfo as P
from maibot_sdk.types import ToolParamType as T
from PIL import Image


def paint(color):
    buf = io.BytesIO()
    Image.new("RGB", (4, 4), color).save(buf, "PNG")
    return base64.b64encode(buf.getvalue()).decode("ascii")


class Painter(MaiBotPlugin):
    async def on_load(self):
        self.state = self.ctx.paths.data_dir / "painted.json"
        self.painted = json.loads(self.state.read_text()) if self.state.exists() else []
        self.size = self.get_plugin_config_data().get("paint", {}).get("size", 4)

    async def on_unload(self):
        self.state.parent.mkdir(parents=True, exist_ok=True)
        self.state.write_text(json.dumps(self.painted))

    async def on_config_update(self, scope, config_data, version):
        self.size = config_data.get("paint", {}).get("size", 4)

    @Tool(
        "paint_colour",
        description="Paint a colour",
        core_tool=True,
        parameters=[
            P(
                name="colour",
                param_type=T.STRING,
                description="which",
                enum_values=["red", "green"],
            ),
            P(name="times", param_type=T.INTEGER, required=False, default=1),
            P(name="tags", param_type=T.ARRAY, description="words", required=False),
            P(
                name="place",
                param_type=T.OBJECT,
                description="where",
                required=False,
                properties={"x": {"type": "integer"}},
                required_properties=["x"],
                additional_properties=False,
            ),
        ],
    )
    async def paint_it(self, colour: str, times: int = 1, tags=None, place=None, **kwargs):
        self.painted.append([colour, times, tags, place])
        data = await asyncio.to_thread(paint, colour)
        return {
            "success": True,
            "content": f"painted {colour} x{times} for {kwargs['user_id']}",
            "content_items": [
                {"type": "text", "text": "look:"},
                {
                    "type": "image",
                    "data": data,
                    "mime_type": "image/png",
                    "name": "p.png",
                    "metadata": {"context_key": "p"},
                },
            ],
        }

    @Tool(
        "gallery",
        brief_description="Post the gallery of all paintings",
        parameters={
            "title": {"type": "string", "description": "Title", "required": True},
            "big": {"type": "boolean"},
        },
    )
    def gallery(self, title, big=False, **kwargs):
        return True, f"{title}: {len(self.painted)}" + (" BIG" if big else "")

    @Tool("erase_everything", brief_description="Erase", visibility="hidden", core_tool=True)
    async def erase(self, **kwargs):
        return "erased"

    @Tool(
        "post_everywhere",
        brief_description="Post in the group stream",
        visibility="visible",
        parameters=[P(name="group", description="group id")],
    )
    async def post(self, group: str, **kwargs):
        stream = await self.ctx.chat.get_stream_by_group_id(group, platform="test")
        if not stream:
            return False, f"no group {group}"
        sid = stream["stream_id"]
        ok = await self.ctx.send.hybrid(
            [{"type": "text", "content": "one "}, {"type": "image", "content": paint("green")}], sid
        )
        ok2 = await self.ctx.send.custom("text", "two", sid)
        detail = await self.ctx.send.text("three", sid, return_details=True, storage_message=True)
        return {
            "ok": bool(ok),
            "ok2": bool(ok2),
            "sent": detail["sent"],
            "group": stream["group_id"],
            "own": sid == kwargs["stream_id"],
        }

    @Tool("know_person", brief_description="What is known of who asks", visibility="visible")
    async def know(self, **kwargs):
        pid = await self.ctx.person.get_id(kwargs["platform"], kwargs["user_id"])
        name = await self.ctx.person.get_value(pid, "person_name")
        nick = await self.ctx.person.get_value(pid, "nickname")
        rows = await self.ctx.db.get(
            "Messages", filters={"session_id": kwargs["stream_id"]}, limit=5, order_by="-timestamp"
        )
        return {"content": f"{bool(pid)} {name or nick} {isinstance(rows, list)} {len(rows) > 0}"}

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)

        @Action(
            "wave_hand",
            description="Wave at somebody",
            activation_type=ActivationType.KEYWORD,
            activation_keywords=["hi"],
            chat_mode=ChatMode.ALL,
            action_parameters={"who": "whom to wave at"},
            action_require=["somebody says hi"],
            associated_types=["text"],
            visibility="visible",
        )
        async def wave(self, who="", reasoning="", action_data=None, **kwargs):
            await self.ctx.send.text(f"o/ {who} {sorted(action_data or {})}", kwargs["stream_id"])
            return True, "waved"


def create_plugin():
    return Painter()
