"""Reads the code blocks of a page about MaiBot's Tool component, as a reader would copy them.

A handler outside a class, or an example that is only a ``return``, is wrapped in a class. The block
with the signature is not run, only compared with the SDK. Nothing else is changed.
"""

import textwrap
from pathlib import Path

PAGE = Path(__file__).parent / "seed_tool_component.txt"
MARK = "python"
_PROMPT = {"prompt": {"type": "string", "required": True}}
_STARTS = ("from ", "import ", "@Tool", "class ", "return {")


def blocks() -> list[str]:
    """The code blocks in order. A block follows a line ``python`` and ends where prose begins."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    found: list[str] = []
    for start, line in enumerate(lines):
        if line != MARK:
            continue
        body: list[str] = []
        for each in lines[start + 1 :]:
            if body and each and not body[-1] and not _is_code(each):
                break
            body.append(each)
        found.append("\n".join(body).strip())
    return found


def _is_code(line: str) -> bool:
    begins = ("async def", "def ", *_STARTS)
    return line.startswith((" ", ")", "}", "]", *begins))


def wrapped(block: str) -> str:
    """The block as a module. A block without a class becomes a method of a plugin class."""
    if "class " in block:
        return block
    head, body = [], []
    for line in block.splitlines():
        (head if line.startswith(("from ", "import ")) else body).append(line)
    code = "\n".join(body).strip()
    if code.startswith("return "):
        code = (
            f'@Tool("example")\nasync def example(self, **kwargs):\n{textwrap.indent(code, "    ")}'
        )
    elif code.startswith("async def"):
        code = f'@Tool("draw", parameters={_PROMPT})\n{code}'
    return "\n".join(
        [
            *head,
            "from base64 import b64encode",
            "from maibot_sdk import MaiBotPlugin, Tool",
            "from maibot_sdk.types import ToolParameterInfo, ToolParamType",
            "image_bytes = PNG",
            "class Wrapped(MaiBotPlugin):",
            textwrap.indent(code, "    "),
            "    async def _draw_image(self, prompt):",
            "        return PNG",
        ]
    )
