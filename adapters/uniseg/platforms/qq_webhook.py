"""NoneBot's QQ adapter, which signs nothing for strangers but what QQ itself has signed.

What differs from nonebot-adapter-qq 1.7.3: QQ finds out whether an address is its bot's by having
the bot sign a time and a token, with the very key by which events of QQ are known. The question
comes unsigned, and the stock adapter signs whatever it is asked, also where no bot has a webhook: a
token that is an event's JSON would make that event genuine, whoever it says to be from.
"""

import re

from loguru import logger
from nonebot.adapters.qq import Adapter as StockAdapter
from nonebot.adapters.qq import Bot
from nonebot.adapters.qq.models import WebhookVerify
from nonebot.drivers import Response

_TIME = re.compile(r"[0-9]{1,20}")
_TOKEN = re.compile(r"[A-Za-z0-9]{1,128}")
"""As in QQ's documentation: ``Arq0D5A61EgUu4OxUvOp``. No event is letters and digits alone."""


class VerifyingAdapter(StockAdapter):
    """See the module."""

    def _webhook_verify(self, bot: Bot, payload: WebhookVerify) -> Response:
        challenge = payload.data
        if _TIME.fullmatch(challenge.event_ts) and _TOKEN.fullmatch(challenge.plain_token):
            return super()._webhook_verify(bot, payload)
        logger.warning("QQ: somebody asked for the signature of {!r}", challenge.plain_token[:200])
        return Response(403, content="this is not signed")
