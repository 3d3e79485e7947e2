"""Reads the code blocks of a documentation page, as a reader would copy them."""

import re
import textwrap
from pathlib import Path

SEEDS = sorted((Path(__file__).parent / "seeds").glob("*.txt"))

# The blocks of the pages use these names but do not define them.
PRELUDE = """
from typing import Any, Dict, List, Optional

from nekro_core.api.plugin import NekroPlugin

plugin = NekroPlugin(
    name="Seed", module_name="seed", description="The page.", version="1", author="nekro", url=""
)


async def search_internal_db(query):
    return None if query == "nothing" else f"[{query}]"


async def generate_image_service(topic):
    return f"https://pictures.example/{topic}.png"

"""

_FENCE = re.compile(r"(?P<indent> *)```(?P<word>\w*)\s*\Z")


def code_blocks(page: str) -> list[str]:
    """The fenced Python blocks. A fence that is indented by four columns belongs to the text of a
    block."""
    blocks: list[str] = []
    lines: list[str] | None = None
    depth = 0
    for line in page.splitlines():
        fence = _FENCE.match(line)
        if lines is None:
            if fence and fence["word"] == "python":
                lines, depth = [], len(fence["indent"])
        elif fence and not fence["word"] and len(fence["indent"]) < depth + 4:
            blocks.append(textwrap.dedent("\n".join(lines)))
            lines = None
        else:
            lines.append(line)
    return blocks


def page_module(path: Path) -> str:
    """One module with the names that the page assumes, and then its blocks in order."""
    return PRELUDE + "\n\n".join(code_blocks(path.read_text(encoding="utf-8")))
