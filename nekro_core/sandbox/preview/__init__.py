"""Shows servers in boxes in a browser, through a reverse proxy that selects the box by host name.

::

    settings.py   PreviewSettings
    registry.py   PreviewRegistry: makes the unguessable names, and finds the box of each
    front.py      PreviewFront: the web application in front of the bot's own
    request.py    one request: its body, and the limits on connections
    problems.py   why a visitor sees no page, and the answer that says so
    headers.py    the headers of requests and answers that are forwarded
    http_exchange.py  one request and its answer
    websocket_bridge.py  one WebSocket

Each preview is an origin different from the bot's and from every other preview's, on the bot's
port. Only the ``Host`` header tells them apart, so it is checked before any route of the bot.
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
