"""Checks every request before its route: the host, the origin and the login.

DNS rebinding lets a stranger's page reach a server on loopback under the stranger's own name, so
the ``Host`` header is checked for all of the application. ``Origin`` and login are checked for what
is ours: ``/ui`` (page, assets and NiceGUI's socket), ``/api/v1`` and ``/plugins``.
"""

import ipaddress
from collections.abc import Set as AbstractSet
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .authentication import Authenticator
from .body_limit import BodyLimitMiddleware, send_refusal
from .login_page import login_page

PAGE = "/ui"
API = "/api/v1"
PLUGINS = "/plugins"
"""What plugins answer; it is the operator's, as the page is."""
WEBHOOKS = "/api/webhook"
"""Calls of other servers, which cannot log in: a secret in the address lets them in."""
POLICY = (
    # Vue compiles the page's templates in the browser, which needs 'unsafe-eval'. What people write
    # is only ever put in as text, and nothing can be loaded from or sent to another host.
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; media-src 'self' blob:; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


class Guard:
    """The outermost layer of the web application."""

    def __init__(
        self, app: ASGIApp, *, authenticator: Authenticator, allowed_hosts: AbstractSet[str]
    ) -> None:
        self._app = app
        self._others = BodyLimitMiddleware(app)
        self._authenticator = authenticator
        self._allowed = allowed_hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let through, or answer."""
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is None and _bounds_bodies(scope):
            await self._app(scope, receive, _hardened(scope, send))
        elif refusal is None:
            await self._others(scope, receive, send)
        elif scope["type"] == "http":
            await send_refusal(_hardened_response(refusal), scope, receive, send)
        else:
            await receive()  # the request to connect, which must be read before it is refused
            await send({"type": "websocket.close", "code": 1008, "reason": "not allowed"})

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        # Two of them are a trick: a proxy may believe the one and we the other.
        host = ", ".join(headers.getlist("host"))
        if not host_allowed(host, self._allowed):
            return _json(
                421,
                "host",
                f"the Host header {host[:100]!r} is not one of this bot's names. If it should be, "
                'add it to .env: WEB_ALLOWED_HOSTS=["name"]',
            )
        path = routed_path(scope)
        if not _is_ours(path):
            return None
        if not origin_allowed(headers.get("origin"), host, self._allowed) or _pulled_in(headers):
            return _json(403, "origin", "requests from other sites' pages are not taken")
        if _within(path, PAGE) or _within(path, API) or _within(path, PLUGINS):
            return self._login_refusal(scope, headers, path)
        return None

    def _login_refusal(self, scope: Scope, headers: Headers, path: str) -> Response | None:
        if self._authenticator.is_session(session_cookie(headers, self._authenticator.cookie)):
            return None
        scheme, _, offered = headers.get("authorization", "").partition(" ")
        if not _within(path, PAGE) and scheme.lower() == "bearer":
            return self._token_refusal(scope, offered.strip())
        if _within(path, API):
            return _json(
                401, "login", "send 'Authorization: Bearer <token>'", {"WWW-Authenticate": "Bearer"}
            )
        language = headers.get("accept-language", "")
        return HTMLResponse(login_page(language), 401)

    def _token_refusal(self, scope: Scope, offered: str) -> Response | None:
        # First of all: the right one is right whatever came before.
        if self._authenticator.is_token(offered):
            return None
        address = client_address(scope)
        seconds = self._authenticator.attempts.wait_s(address)
        if seconds:
            return _json(
                429,
                "too_many_attempts",
                "too many wrong tokens; the right one is taken at once",
                wait_headers(seconds),
            )
        self._authenticator.attempts.failed(address)
        return _json(
            401,
            "token",
            "wrong token; the right one lies in secrets/web_access_token under the data folder",
            {"WWW-Authenticate": 'Bearer error="invalid_token"'},
        )


def wait_headers(seconds: float) -> dict[str, str]:
    """What an answer says to somebody who tries too often. Each further try costs a connection."""
    return {"Retry-After": str(int(seconds) + 1), "Connection": "close"}


def routed_path(scope: Scope) -> str:
    """The path by which the application finds its routes: where it lives below a proxy's path
    (``root_path``), without that. A check of another path would
    guard another route."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    inner = path.removeprefix(root)
    return inner if not inner or inner.startswith("/") else path


def host_allowed(host: str, allowed: AbstractSet[str]) -> bool:
    """Whether a ``Host`` header names us.

    A numeric address is let through: a rebound name is never one, because the browser sends what
    stands in the address line.
    """
    try:
        name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return False
    if not name or "@" in host or "/" in host:
        return False
    return name == "localhost" or name.endswith(".localhost") or name in allowed or _is_ip(name)


def origin_allowed(origin: str | None, host: str, allowed: AbstractSet[str]) -> bool:
    """Whether the page that asks is our own, or the one that asks is no browser (no header).

    A reverse proxy may replace ``Host``, so a configured name counts as ours too.
    """
    if origin is None:
        return True
    try:
        parts = urlsplit(origin)
        return parts.scheme in {"http", "https"} and (
            _with_port(parts.netloc, parts.scheme) == _with_port(host, parts.scheme)
            or (parts.hostname or "") in allowed
        )
    except ValueError:
        return False


def _pulled_in(headers: Headers) -> bool:
    """Whether another site's page asks without saying so: a picture or a script of it comes without
    ``Origin``, and from another port of this host with our cookie. Links are followed."""
    return (
        "origin" not in headers
        and headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}
        and headers.get("sec-fetch-mode") != "navigate"
    )


def session_cookie(headers: Headers, name: str) -> str:
    """What the browser keeps for us, or nothing.

    Not by `http.cookies`, which a stranger can keep busy for 9.5 s with 60,000 backslashes (before
    Python 3.11.10 and 3.12.6, CVE-2024-7592): what we set needs no unquoting.
    """
    for header in headers.getlist("cookie"):
        for pair in header.split(";"):
            key, _, value = pair.partition("=")
            if key.strip() == name and value:
                return value.strip().strip('"')
    return ""


def client_address(scope: Scope) -> str:
    """Who is at the other end, for counting failures."""
    client = HTTPConnection(scope).client
    return client.host if client else ""


def _is_ours(path: str) -> bool:
    return path in {"/", "/login"} or any(_within(path, each) for each in (PAGE, API, PLUGINS))


def _bounds_bodies(scope: Scope) -> bool:
    """Whether what answers there bounds what it reads: all but other adapters' routes does."""
    path = routed_path(scope)
    return scope["type"] != "http" or _is_ours(path) or _within(path, WEBHOOKS)


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + "/")


def _is_ip(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _with_port(netloc: str, scheme: str) -> tuple[str, int]:
    parts = urlsplit(f"//{netloc}")
    return (parts.hostname or "").rstrip("."), parts.port or (443 if scheme == "https" else 80)


def _json(
    status: int, code: str, message: str, headers: dict[str, str] | None = None
) -> JSONResponse:
    return JSONResponse({"error": {"code": code, "message": message}}, status, headers)


def _hardened_response(response: Response) -> Response:
    _harden(response.headers)
    return response


def _hardened(scope: Scope, send: Send) -> Send:
    """Add the protecting headers to what is ours."""
    if scope["type"] != "http" or not _is_ours(routed_path(scope)):
        return send

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            _harden(MutableHeaders(scope=message))
        await send(message)

    return sending


def _harden(headers: MutableHeaders) -> None:
    headers.setdefault("Content-Security-Policy", POLICY)
    headers.setdefault("X-Content-Type-Options", "nosniff")
    headers.setdefault("X-Frame-Options", "DENY")
    # "no-referrer" would make a form's Origin "null", and our own login would be refused.
    headers.setdefault("Referrer-Policy", "same-origin")
    headers.setdefault("Cross-Origin-Opener-Policy", "same-origin")
    headers.setdefault("Cross-Origin-Resource-Policy", "same-origin")
    headers.setdefault("Cache-Control", "no-store")
