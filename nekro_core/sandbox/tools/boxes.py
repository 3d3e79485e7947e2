"""Implements the tools ``browse``, ``sandbox_create`` and ``sandbox_list``."""

from typing import Any

import anyio

from nekro_core.sandbox.box import Box, BoxConnectionError
from nekro_core.sandbox.egress.environment import EGRESS_PORT
from nekro_core.sandbox.named import UseEffect
from nekro_core.sandbox.preview.registry import PreviewRefused
from nekro_core.sandbox.tools.inputs import invalid
from nekro_core.sandbox.tools.pool import SandboxToolCall, refused
from nekro_core.sandbox.tools.result import ErrorCode, SandboxToolError, SandboxToolResult, result

_STARTING_S = 2.0
"""How many seconds ``browse`` waits for a server to listen. After this time, ``browse`` returns the
address anyway, with ``listening`` false."""
_PAUSE_S = 0.1
_MAX_IMAGE = 200


async def browse(call: SandboxToolCall) -> SandboxToolResult:
    """Return the address at which a browser reaches a port of the box: ``{url}``. The address is
    the same at each call.

    If no program listens at the port after `_STARTING_S`, the result also has ``listening``: false.
    """
    port = call.input.whole("port", least=1, most=65535)
    assert port is not None, "it is required"
    if port == EGRESS_PORT:
        raise invalid(f"port: {port} is the sandbox's network proxy, not a server")
    preview = call.pool.preview
    if preview is None:
        raise SandboxToolError(ErrorCode.SANDBOX_FAILED, "servers in sandboxes cannot be shown")
    async with call.use("sandbox", UseEffect.NOTHING) as used:
        told: dict[str, Any] = {}
        if not await _listens(used.box, port):
            told["listening"] = False
        try:
            url = preview.open(used.named, port)
        except PreviewRefused as error:
            raise refused(str(error)) from error
    return result({"url": url, **told, **call.news})


async def sandbox_create(call: SandboxToolCall) -> SandboxToolResult:
    """Make a box. Returns ``{sandbox, created}``; ``created`` is false if the box existed
    already."""
    name = call.name("sandbox")
    image = call.input.text("image")
    if not image or len(image) > _MAX_IMAGE:
        raise invalid(f"image: expected the name of an image, at most {_MAX_IMAGE} characters")
    sleep_after_s = call.input.seconds("sleep_after_ms", most=call.limits.sleep_after_s)
    # If the call names no image, an existing box may have any image.
    created = await call.pool.boxes.create(
        name,
        image=image,
        sleep_after_s=sleep_after_s,
        any_image="image" not in call.input.given,
    )
    return result({"sandbox": name, "created": created})


async def sandbox_list(call: SandboxToolCall) -> SandboxToolResult:
    """List all boxes without waking any: ``{sandboxes: [{name, image, status}]}``."""
    listed = [
        {
            "name": each.name,
            "image": each.image,
            "status": "running" if each.running else "sleeping",
        }
        for each in await call.pool.boxes.list()
    ]
    return result({"sandboxes": listed})


async def _listens(box: Box, port: int) -> bool:
    with anyio.move_on_after(_STARTING_S):
        while True:
            try:
                connection = await box.connect(port, timeout_s=_STARTING_S)
            except BoxConnectionError:
                await anyio.sleep(_PAUSE_S)
            else:
                await connection.aclose()
                return True
    return False
