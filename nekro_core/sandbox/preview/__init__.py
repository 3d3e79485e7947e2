"""Servers in boxes, shown in a browser: a reverse proxy that tells previews apart by name.

::

    target.py     what a preview reaches: a box as its keeper sees it, over sleep and wake
    settings.py   PreviewSettings
    names.py      Preview: opens and finds the unguessable names
    front.py      PreviewFront: the web application before the bot's own
    slots.py      how many connections at once, per name and per box
    body.py       a request's body, and what happens to the rest of an unwanted one
    problems.py   why a visitor sees no page, and how they are told
    headers.py    what of a request and of an answer passes, and as what
    exchange.py   one request and its answer
    duplex.py     one WebSocket

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
