"""For any input that a model writes, a tool returns one result, raises no error and starts no
box."""

import json
import tempfile
from contextvars import Context
from pathlib import Path
from typing import Any

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st

from nekro_core.sandbox.named import FolderStorage, NamedBoxes, NamedBoxLimits
from nekro_core.sandbox.tools import TOOL_NAMES, SandboxPool, handle_tool_call
from nekro_core.sandbox.tools.description import ADDED, DOCUMENT
from nekro_core.sandbox.tools.result import ErrorCode
from tests.sandbox.named.memory_boxes import Clock, MemorySource

KEYS = sorted({name for tool in DOCUMENT for name in tool["inputSchema"]["properties"]} | {"nope"})
STRANGE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(
        ["default", "..", "/etc/passwd", "a\0b", "\ud800", "-rf /", "$(id)", "x" * 70]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)

NOWHERE = FolderStorage(Path(tempfile.gettempdir()) / "there is no such folder")


def fits(value: Any, schema: dict[str, Any]) -> bool:
    """Return True if a value has the type that the schema asks for."""
    kinds = {"string": str, "boolean": bool, "number": (int, float)}
    if schema["type"] == "number" and isinstance(value, bool):
        return False
    return isinstance(value, kinds[schema["type"]])


@given(
    st.sampled_from(TOOL_NAMES) | st.text(),
    st.dictionaries(st.sampled_from(KEYS), STRANGE, max_size=6) | STRANGE,
)
@settings(max_examples=100, deadline=None)
def test_every_tool_returns_one_result_for_any_input(tool: str, given_: Any) -> None:
    source = MemorySource()
    source.images = ()
    keeper = NamedBoxes(source, NOWHERE, NamedBoxLimits(), clock=Clock())
    # Use a new context, because the present one contains the event loop of the tests.
    done = Context().run(anyio.run, handle_tool_call, SandboxPool(keeper.of("lin")), tool, given_)
    value = json.loads(done.content)
    done.content.encode()
    if done.is_error:
        assert value["error"]["code"] in {code.value for code in ErrorCode}
        assert len(value["error"]["message"]) < 1000
    else:
        assert tool == "sandbox_list"
    described = {each["name"]: each["inputSchema"] for each in DOCUMENT}
    if tool in described and isinstance(given_, dict):
        properties = described[tool]["properties"] | ADDED.get(tool, {})
        if any(key not in properties or not fits(given_[key], properties[key]) for key in given_):
            assert value["error"]["code"] == "invalid_input"
    assert source.made == []
