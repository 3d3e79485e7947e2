"""Refuses connections without the access token."""

import hmac

from nonebot.adapters.onebot.utils import get_auth_bearer
from nonebot.drivers import Driver, Request

KEPT_AS = "onebot_v11_access_token"
"""The name under which a token is stored. The stored token is used if the settings have none."""


def offers(request: Request, token: str) -> bool:
    """Return True if the request has the token in its ``Authorization`` header, after ``Bearer`` or
    ``Token``. A token in the address is not accepted, because addresses appear in logs."""
    offered = get_auth_bearer(request.headers.get("authorization")) or ""
    return hmac.compare_digest(offered.encode(), token.encode())


def require_token_checks(driver: Driver) -> None:
    """Raise `RuntimeError` if an HTTP route accepts OneBot events without a token.

    The HTTP routes of nonebot-adapter-onebot 2.4.6 check no token. Through them, anybody who
    reaches the port could send events as any account, for example the operator's.
    """
    application = getattr(driver, "server_app", None)
    for route in getattr(application, "routes", ()):
        path = str(getattr(route, "path", ""))
        if path.startswith("/onebot/v11") and getattr(route, "methods", None):
            raise RuntimeError(
                f"the HTTP route {path} accepts OneBot events without a token: "
                "do not register nonebot-adapter-onebot's own v11 adapter beside this one"
            )
