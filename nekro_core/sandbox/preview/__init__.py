"""Previews: a browser can open a server that runs in a box. A reverse proxy finds the box by the
host name.

::

    settings.py   PreviewSettings
    registry.py   PreviewRegistry: makes the unguessable names, and finds the box of a name
    front.py      PreviewFront: a web application that wraps the bot's web application
    request.py    one request: its body, and the limits on connections
    problems.py   why a visitor gets no page, and the answer in this case
    headers.py    which headers of requests and answers are forwarded
    http_exchange.py  one request and its answer
    websocket_bridge.py  one WebSocket

All previews use the bot's port, but each has a different host name, so browsers treat each as a
separate origin. Only the ``Host`` header distinguishes them, so it is checked before the bot's
routes.
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
