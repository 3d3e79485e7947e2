"""砚台画图 —— 零依赖画柱状图 / 色卡。

PNG 是自己拼的（zlib + struct），不想为了几个方块装 Pillow。
"""

from __future__ import annotations

import base64
import re
import struct
import zlib
from typing import Any

from maibot_sdk import MaiBotPlugin, Tool
from maibot_sdk.types import ToolParameterInfo as P, ToolParamType as T

WHITE = (255, 255, 255)
BAR_COLORS = [(66, 133, 244), (219, 68, 55), (244, 180, 0), (15, 157, 88)]
MAX_BARS = 12


def _chunk(kind: bytes, body: bytes) -> bytes:
    crc = zlib.crc32(kind + body)
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", crc)


def make_png(width: int, height: int, pixel) -> bytes:
    """pixel(x, y) -> (r, g, b)"""
    rows = []
    for y in range(height):
        row = bytearray([0])
        for x in range(width):
            row += bytes(pixel(x, y))
        rows.append(bytes(row))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", head)
        + _chunk(b"IDAT", zlib.compress(b"".join(rows)))
        + _chunk(b"IEND", b"")
    )


def bar_chart(values: list[float]) -> bytes:
    width, height, gap = 40 * len(values) + 10, 120, 10
    top = max([*values, 1])

    def pixel(x: int, y: int):
        index, inside = divmod(x - gap, 40)
        if x < gap or index >= len(values) or inside >= 30:
            return WHITE
        filled = (height - 10) * max(values[index], 0) / top
        return BAR_COLORS[index % len(BAR_COLORS)] if height - y <= filled else WHITE

    return make_png(width, height, pixel)


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


CHART_PARAMETERS = [
    P(name="title", description="图表标题"),
    P(
        name="labels",
        param_type=T.ARRAY,
        description="每根柱子的名字",
        items_schema={"type": "string"},
    ),
    P(
        name="values",
        param_type=T.ARRAY,
        description="每根柱子的数值，顺序和 labels 一致",
        items_schema={"type": "number"},
    ),
]


class ChartPainterPlugin(MaiBotPlugin):
    async def on_load(self) -> None:
        self.painted = 0

    async def on_unload(self) -> None:
        return None

    async def on_config_update(self, scope: str, config_data: dict, version: str) -> None:
        del scope, config_data, version

    def _check(self, labels: list, values: list) -> str:
        if not values or len(labels) != len(values):
            return "labels 和 values 的个数必须一致且不为空"
        if len(values) > MAX_BARS:
            return f"最多画 {MAX_BARS} 根柱子"
        return ""

    @Tool(
        "draw_bar_chart",
        brief_description="画一张柱状图，画完自己能看到图",
        detailed_description="图只给你自己看，不会发到群里。想发出去请用 send_bar_chart。",
        parameters=CHART_PARAMETERS,
    )
    async def handle_draw(
        self, title: str = "", labels: list[str] = [], values: list[float] = [], **kwargs: Any
    ) -> dict[str, Any]:
        problem = self._check(labels, values)
        if problem:
            return {"success": False, "error": problem}
        self.painted += 1
        legend = "，".join(f"{label}={value:g}" for label, value in zip(labels, values))
        return {
            "success": True,
            "content": f"《{title}》画好了：{legend}。请按索引查看图片。",
            "content_items": [
                {
                    "type": "image",
                    "data": b64(bar_chart(values)),
                    "mime_type": "image/png",
                    "name": f"chart_{self.painted}.png",
                    "description": title,
                    "metadata": {"bars": len(values)},
                }
            ],
        }

    @Tool(
        "color_swatch",
        description="生成一张纯色色卡",
        parameters={
            "type": "object",
            "properties": {
                "color": {"type": "string", "description": "十六进制颜色，例如 #ffcc00"},
                "size": {"type": "integer", "description": "边长", "minimum": 4, "maximum": 64},
            },
            "required": ["color"],
        },
    )
    async def handle_swatch(self, color: str, size: int = 16, **kwargs):
        match = re.fullmatch(r"#?([0-9a-fA-F]{6})", color.strip())
        if match is None:
            return {"success": False, "message": f"看不懂颜色 {color}"}
        rgb = tuple(bytes.fromhex(match[1]))
        png = make_png(size, size, lambda x, y: rgb)
        return {
            "success": True,
            "content": f"#{match[1].lower()} 的色卡，{size}×{size}",
            "content_items": [
                {"type": "text", "text": "前面是说明，后面才是图"},
                {
                    "content_type": "image",
                    "uri": f"data:image/png;base64,{b64(png)}",
                    "mime_type": "image/png",
                    "name": "swatch.png",
                },
            ],
        }

    @Tool(
        "send_bar_chart",
        description="画一张柱状图并直接发到当前聊天",
        parameters=[
            P(name="stream_id", description="当前聊天流 ID", required=True),
            *CHART_PARAMETERS[1:],
        ],
    )
    async def handle_send(self, stream_id: str, labels: list, values: list, **kwargs):
        problem = self._check(labels, values)
        if problem:
            return False, problem
        sent = await self.ctx.send.image(b64(bar_chart(values)), stream_id)
        return {"success": sent, "message": "图已发送" if sent else "发送失败"}


def create_plugin() -> ChartPainterPlugin:
    return ChartPainterPlugin()
