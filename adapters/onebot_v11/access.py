"""Checks that nobody connects without the access token."""

import hmac

from nonebot.adapters.onebot.utils import get_auth_bearer
from nonebot.drivers import Driver, Request

KEPT_AS = "onebot_v11_access_token"
"""The name of the kept token, unless the settings have one."""


def offers(request: Request, token: str) -> bool:
    """Whether the request has the token in its ``Authorization`` header, after ``Bearer`` or
    ``Token``. Not in its address: addresses stand in logs."""
    offered = get_auth_bearer(request.headers.get("authorization")) or ""
    return hmac.compare_digest(offered.encode(), token.encode())


def require_token_checks(driver: Driver) -> None:
    """Raise `RuntimeError` where events could come in past the token.

    The HTTP routes of nonebot-adapter-onebot 2.4.6 ask for no token: anybody who reaches the port
    could speak as any account, the operator's included.
    """
    application = getattr(driver, "server_app", None)
    for route in getattr(application, "routes", ()):
        path = str(getattr(route, "path", ""))
        if path.startswith("/onebot/v11") and getattr(route, "methods", None):
            raise RuntimeError(
                f"the HTTP route {path} takes OneBot events without a token: "
                "do not register nonebot-adapter-onebot's own v11 adapter beside this one"
            )
