"""Checks the host, the origin and the login of every request, before its route runs.

With DNS rebinding, a stranger's page reaches a server on loopback under the stranger's own host
name. So the ``Host`` header of all requests is checked. ``Origin`` and login are checked for this
adapter's paths: ``/ui`` (page, assets and NiceGUI's socket), ``/api/v1`` and ``/plugins``.
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
"""Path of the plugins' pages. Only the operator may open them, as for the chat page."""
WEBHOOKS = "/api/webhook"
"""Path of webhooks. Other servers call them. They cannot log in, so the address contains a
secret."""
POLICY = (
    # Vue compiles the page's templates in the browser, which needs 'unsafe-eval'. People's messages
    # are inserted only as text, and nothing can be loaded from or sent to another host.
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; media-src 'self' blob:; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


class Guard:
    """The middleware that gets each request first, and passes it on or refuses it."""

    def __init__(
        self, app: ASGIApp, *, authenticator: Authenticator, allowed_hosts: AbstractSet[str]
    ) -> None:
        self._app = app
        self._others = BodyLimitMiddleware(app)
        self._authenticator = authenticator
        self._allowed = allowed_hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
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
            await receive()  # the connection request must be read before it is refused
            await send({"type": "websocket.close", "code": 1008, "reason": "not allowed"})

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        # Two Host headers are an attack: a proxy may use one of them and the bot the other.
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
        # The token is checked first: the right token is accepted even after many wrong ones.
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
    """Return the headers of an answer to a client that made too many tries. They also close its
    connection."""
    return {"Retry-After": str(int(seconds) + 1), "Connection": "close"}


def routed_path(scope: Scope) -> str:
    """Return the path that the application uses for routing. It lacks ``root_path``, which is the
    path at which a proxy serves the bot. `Guard` must check this path and no other: otherwise it
    would protect the wrong route."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    inner = path.removeprefix(root)
    return inner if not inner or inner.startswith("/") else path


def host_allowed(host: str, allowed: AbstractSet[str]) -> bool:
    """Whether a ``Host`` header names this bot.

    Every numeric address is accepted: DNS rebinding needs a host name, and the browser sends the
    host that is in the page's address.
    """
    try:
        name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return False
    if not name or "@" in host or "/" in host:
        return False
    return name == "localhost" or name.endswith(".localhost") or name in allowed or _is_ip(name)


def origin_allowed(origin: str | None, host: str, allowed: AbstractSet[str]) -> bool:
    """Whether the request comes from a page of this bot, or has no ``Origin`` header, as from a
    script.

    A reverse proxy may replace ``Host``, so the configured host names are accepted too.
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
    """Whether another site's page loads this address, for example as a picture or a script. Such a
    request has no ``Origin``, but it has the session cookie if that page is on another port of this
    host. Navigation by links is allowed."""
    return (
        "origin" not in headers
        and headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}
        and headers.get("sec-fetch-mode") != "navigate"
    )


def session_cookie(headers: Headers, name: str) -> str:
    """Return the value of the session cookie ``name``, or an empty text.

    `http.cookies` is not used: before Python 3.11.10 and 3.12.6, it needed 9.5 s for 60,000
    backslashes (CVE-2024-7592). The session cookie needs no unquoting.
    """
    for header in headers.getlist("cookie"):
        for pair in header.split(";"):
            key, _, value = pair.partition("=")
            if key.strip() == name and value:
                return value.strip().strip('"')
    return ""


def client_address(scope: Scope) -> str:
    """Return the client's address, under which failures are counted."""
    client = HTTPConnection(scope).client
    return client.host if client else ""


def _is_ours(path: str) -> bool:
    return path in {"/", "/login"} or any(_within(path, each) for each in (PAGE, API, PLUGINS))


def _bounds_bodies(scope: Scope) -> bool:
    """Whether the handler of the path limits bodies itself. Only the routes of other adapters do
    not."""
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
    """Add the security headers to answers of this adapter's paths."""
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
    # With "no-referrer", a form's Origin would be "null", and the guard would refuse the login.
    headers.setdefault("Referrer-Policy", "same-origin")
    headers.setdefault("Cross-Origin-Opener-Policy", "same-origin")
    headers.setdefault("Cross-Origin-Resource-Policy", "same-origin")
    headers.setdefault("Cache-Control", "no-store")
