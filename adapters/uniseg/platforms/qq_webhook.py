"""Wraps NoneBot's QQ adapter so that it signs no forged events.

To verify a webhook's address, QQ asks the bot to sign a time and a token. The bot signs them with
the key that also authenticates QQ's events. QQ's request itself is not signed. nonebot-adapter-qq
1.7.3 signs any token, even if no bot has a webhook. So a stranger could send an event's JSON as the
token, and would get a valid signature for that event. This adapter signs only tokens of letters and
digits.
"""

import re

from loguru import logger
from nonebot.adapters.qq import Adapter as StockAdapter
from nonebot.adapters.qq import Bot
from nonebot.adapters.qq.models import WebhookVerify
from nonebot.drivers import Response

_TIME = re.compile(r"[0-9]{1,20}")
_TOKEN = re.compile(r"[A-Za-z0-9]{1,128}")
"""A token as in QQ's documentation: ``Arq0D5A61EgUu4OxUvOp``. The JSON of an event has other
characters too."""


class VerifyingAdapter(StockAdapter):
    """NoneBot's QQ adapter, which signs only tokens of letters and digits."""

    def _webhook_verify(self, bot: Bot, payload: WebhookVerify) -> Response:
        challenge = payload.data
        if _TIME.fullmatch(challenge.event_ts) and _TOKEN.fullmatch(challenge.plain_token):
            return super()._webhook_verify(bot, payload)
        logger.warning("QQ: refused to sign a webhook's token {!r}", challenge.plain_token[:200])
        return Response(403, content="this is not signed")
