"""Refuses connections without the access token."""

import hmac

from nonebot.adapters.onebot.utils import get_auth_bearer
from nonebot.drivers import Driver, Request

KEPT_AS = "onebot_v11_access_token"
"""Name of the stored token. It is used if the settings have no token."""


def offers(request: Request, token: str) -> bool:
    """Whether the request has the token in its ``Authorization`` header, after ``Bearer`` or
    ``Token``. A token in the address is not accepted, because addresses appear in logs."""
    offered = get_auth_bearer(request.headers.get("authorization")) or ""
    return hmac.compare_digest(offered.encode(), token.encode())


def require_token_checks(driver: Driver) -> None:
    """Raise `RuntimeError` if events could come in without the token.

    The HTTP routes of nonebot-adapter-onebot 2.4.6 ask for no token. Anybody who reaches the port
    could send events as any account, including the operator's.
    """
    application = getattr(driver, "server_app", None)
    for route in getattr(application, "routes", ()):
        path = str(getattr(route, "path", ""))
        if path.startswith("/onebot/v11") and getattr(route, "methods", None):
            raise RuntimeError(
                f"the HTTP route {path} takes OneBot events without a token: "
                "do not register nonebot-adapter-onebot's own v11 adapter beside this one"
            )
