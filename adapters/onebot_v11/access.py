"""Who may connect: the access token, and the check that nobody gets around it."""

import hmac
import os
import secrets
from pathlib import Path

from nonebot.adapters.onebot.utils import get_auth_bearer
from nonebot.drivers import Driver, Request

TOKEN_FILE = Path("secrets") / "onebot_v11_access_token"
"""Where the token lies under the data folder, unless the settings name one."""


def kept_token(data_dir: Path) -> str:
    """The token made at the first start, made now if this is it. Readable by its owner alone."""
    path = data_dir / TOKEN_FILE
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        # Exclusive: of two first starts at once, one makes it and the other reads it.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        token = path.read_text().strip()
        if not token:
            raise RuntimeError(f"{path} is empty: delete it, and a new token is made") from None
        return token
    with os.fdopen(descriptor, "w") as file:
        token = secrets.token_urlsafe(32)
        file.write(token)
    return token


def offers(request: Request, token: str) -> bool:
    """Whether the request has the token in its ``Authorization`` header, after ``Bearer`` or
    ``Token``. Not in its address: addresses stand in logs."""
    offered = get_auth_bearer(request.headers.get("authorization")) or ""
    return hmac.compare_digest(offered.encode(), token.encode())


def refuse_open_doors(driver: Driver) -> None:
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
