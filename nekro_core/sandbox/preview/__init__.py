"""Servers in boxes, shown in a browser: a reverse proxy that tells previews apart by name.

::

    settings.py   PreviewSettings
    registry.py   PreviewRegistry: opens and finds the unguessable names, and what each reaches
    front.py      PreviewFront: the web application before the bot's own
    request.py    one visit: its body, and its place among the connections at once
    problems.py   why a visitor sees no page, and how they are told
    headers.py    what of a request and of an answer passes, and as what
    http_exchange.py  one request and its answer
    websocket_bridge.py  one WebSocket

A preview is another origin than the bot, and any other preview, on the bot's own port: only the
``Host`` header tells them apart, so it is looked at before any route of the bot.
"""

from nekro_core.sandbox.preview.registry import (
    PreviewRefused,
    PreviewRegistry,
    PreviewTarget,
    PreviewTargetState,
)
from nekro_core.sandbox.preview.settings import PreviewSettings

__all__ = [
    "PreviewRefused",
    "PreviewRegistry",
    "PreviewSettings",
    "PreviewTarget",
    "PreviewTargetState",
]
