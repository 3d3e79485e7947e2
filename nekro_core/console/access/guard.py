"""Checks the host, the origin and the login of every request, before its route runs.

In a DNS rebinding attack, a page of a stranger's web site sends requests to a server on loopback
under the stranger's own host name. So the ``Host`` header of all requests is checked. ``Origin``
and login are checked for the web site's own paths: ``/ui`` (pages, assets and NiceGUI's socket),
``/api/v1`` and ``/plugins``. ``/metrics`` needs a login too, unless the settings allow this client
to read it without one (`health_access.py`).

The guard puts the person who asks into the request's state: ``request.state.actor`` is an `Actor`,
and ``request.state.visit`` is a `Visit`. A page that stays open asks the visit again who the person
is.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager

from loguru import logger
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nekro_core.console.access.authentication import Authenticator, Visit
from nekro_core.console.access.body_limit import BodyLimitMiddleware, send_refusal
from nekro_core.console.access.health_access import ALIVE, METRICS, READY, open_reading
from nekro_core.console.access.live_visits import while_allowed
from nekro_core.console.access.login_page import login_page
from nekro_core.console.access.origins import host_allowed, origin_allowed, pulled_in
from nekro_core.operator.http_routes import API, PAGE, PLUGINS, WEBHOOKS
from nekro_core.operator.roles import AccessRole
from nekro_core.store import StoreUnavailable

OWN_PAGES = frozenset({"/", "/login", "/login/code", "/join", "/logout"})
"""The pages that a person needs to log in. Everybody may open them."""
POLICY = (
    # Vue compiles the page's templates in the browser, which needs 'unsafe-eval'. This is
    # acceptable: people's messages are inserted only as text, and this policy lets the page neither
    # load from nor send to another host.
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; media-src 'self' blob:; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
PLUGINS_POLICY = POLICY.replace("frame-ancestors 'none'", "frame-ancestors 'self'")
"""The policy of plugins' pages. The console may show them in a frame; other sites may not."""

MAX_AT_ONCE = 200
"""Maximum number of requests and websockets that one person may have open at the same time. The web
server accepts 512 connections in total, and one person must not use up all of them."""


class Guard:
    """The middleware that receives each request first, and passes it on or refuses it.

    ``allowed_hosts`` are the names under which the bot may be reached. ``metrics_readers`` returns
    the setting that says who may read ``/metrics`` without a login.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        authenticator: Authenticator,
        allowed_hosts: AbstractSet[str],
        metrics_readers: Callable[[], str] = lambda: "token",
    ) -> None:
        self._app = app
        self._others = BodyLimitMiddleware(app)
        self._authenticator = authenticator
        self._allowed = allowed_hosts
        self._metrics_readers = metrics_readers
        self._open: Counter[int] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        answer: Response | Visit | None = self._place_refusal(scope)
        if answer is None and self._asks_login(scope):
            try:
                answer = await self._visitor(scope)
            except StoreUnavailable as error:
                logger.error("{}: {}", scope["path"], error)
                answer = _json(503, "store", str(error))
        if isinstance(answer, Visit) and self._open[answer.person_id] >= MAX_AT_ONCE:
            answer = _too_many()
        if isinstance(answer, Visit):
            scope.setdefault("state", {}).update(actor=answer.actor, visit=answer)
            with self._counted(answer.person_id):
                await while_allowed(self._app, answer, scope, receive, _hardened(scope, send))
        elif answer is None and _bounds_bodies(scope):
            await self._app(scope, receive, _hardened(scope, send))
        elif answer is None:
            await self._others(scope, receive, send)
        elif scope["type"] == "http":
            await send_refusal(_hardened_response(answer), scope, receive, send)
        else:
            await receive()  # the connection request must be read before it is refused
            await send({"type": "websocket.close", "code": 1008, "reason": "not allowed"})

    def _asks_login(self, scope: Scope) -> bool:
        """Return True if the guard must find out who makes a request."""
        path = routed_path(scope)
        if path not in (READY, METRICS):
            return _needs_login(path)
        opened = open_reading(scope, self._metrics_readers(), self._allowed)
        # Everybody may ask whether the bot is ready. Only the reasons why it is not ready need a
        # token.
        return not opened and (path == METRICS or "authorization" in Headers(scope=scope))

    @contextmanager
    def _counted(self, person_id: int) -> Iterator[None]:
        """Count a request until the block ends. Requests with the owner's token are not counted."""
        if not person_id:
            yield
            return
        self._open[person_id] += 1
        try:
            yield
        finally:
            self._open[person_id] -= 1
            if not self._open[person_id]:
                del self._open[person_id]

    def _place_refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if any(character in scope["path"] for character in "\r\n\0"):
            # The router's patterns end in "$", which also matches before a newline at the end of
            # the path. So the router would run a route of the web site for such a path, although
            # this class does not recognize the path as one of the web site's and would not check
            # the login.
            return _json(404, "path", "the path has a control character")
        # Join several Host headers, so that they are refused. Several headers are an attack: a
        # proxy in front of the bot may check one of them, and the bot the other.
        host = ", ".join(headers.getlist("host"))
        if not host_allowed(host, self._allowed):
            return _json(
                421,
                "host",
                f"the Host header {host[:100]!r} is not one of this bot's names. If it should be, "
                'add it to .env: WEB_ALLOWED_HOSTS=["name"]',
            )
        if _is_ours(routed_path(scope)) and (
            not origin_allowed(headers.get("origin"), host, self._allowed) or pulled_in(headers)
        ):
            return _json(403, "origin", "requests from other sites' pages are not taken")
        return None

    async def _visitor(self, scope: Scope) -> Visit | Response:
        """Find out who asks. Returns a refusal for a stranger, and for a person who may not open
        plugins' pages but asks for one. Raises `StoreUnavailable`."""
        headers, path = Headers(scope=scope), routed_path(scope)
        cookie = session_cookie(headers, self._authenticator.cookie)
        address = client_address(scope)
        visit = await self._authenticator.by_session(cookie, address) if cookie else None
        scheme, _, offered = headers.get("authorization", "").partition(" ")
        if visit is None and not _within(path, PAGE) and scheme.lower() == "bearer":
            # The token is checked first: a right token is accepted even after many wrong tokens.
            visit = await self._authenticator.by_token(offered.strip(), address)
            if visit is None:
                return self._wrong_token(address)
        if visit is not None:
            return (_plugins_refusal(visit) if _within(path, PLUGINS) else None) or visit
        if _within(path, API) or path in (READY, METRICS):
            return _json(
                401, "login", "send 'Authorization: Bearer <token>'", {"WWW-Authenticate": "Bearer"}
            )
        return HTMLResponse(login_page(headers.get("accept-language", "")), 401)

    def _wrong_token(self, address: str) -> Response:
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


def _too_many() -> Response:
    return _json(
        429,
        "too_many_requests",
        f"you have {MAX_AT_ONCE} requests and pages open: close some of them",
        {"Connection": "close"},
    )


def _plugins_refusal(visit: Visit) -> Response | None:
    """Return a refusal if the person may not open plugins' pages. The pages check no roles
    themselves, and a request to any of their addresses may change something. So people need the
    role of an operator."""
    actor = visit.actor
    if actor.role.allows(AccessRole.OPERATOR) and actor.in_scope("plugins", acts=True):
        return None
    return _json(
        403,
        "role",
        "plugins' pages need the role operator, and an API token for them the scope plugins:act",
    )


def wait_headers(seconds: float) -> dict[str, str]:
    """Return the headers of an answer to a client that made too many tries. They also close its
    connection."""
    return {"Retry-After": str(int(seconds) + 1), "Connection": "close"}


def routed_path(scope: Scope) -> str:
    """Return the path that the application uses for routing. It is the path of the request without
    ``root_path``, the path at which a proxy serves the bot. `Guard` must check exactly this path.
    If it checked another path, it would protect the wrong route."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    inner = path.removeprefix(root)
    return inner if not inner or inner.startswith("/") else path


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
    """Return the client's address. Wrong tokens are counted by this address."""
    client = HTTPConnection(scope).client
    return client.host if client else ""


def _needs_login(path: str) -> bool:
    return any(_within(path, each) for each in (PAGE, API, PLUGINS))


def _is_ours(path: str) -> bool:
    return path in OWN_PAGES or path in (ALIVE, READY, METRICS) or _needs_login(path)


def _bounds_bodies(scope: Scope) -> bool:
    """Return True if the handler of the path limits the size of bodies itself. Only the handlers of
    adapters' routes outside of the web site do not limit it."""
    path = routed_path(scope)
    return scope["type"] != "http" or _is_ours(path) or _within(path, WEBHOOKS)


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + "/")


def _json(
    status: int, code: str, message: str, headers: dict[str, str] | None = None
) -> JSONResponse:
    return JSONResponse({"error": {"code": code, "message": message}}, status, headers)


def _hardened_response(response: Response) -> Response:
    _harden(response.headers)
    return response


def _hardened(scope: Scope, send: Send) -> Send:
    """Add the security headers to answers of the web site's own paths."""
    path = routed_path(scope)  # read before the router changes the scope
    if scope["type"] != "http" or not _is_ours(path):
        return send

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            _harden(MutableHeaders(scope=message), framed=_within(path, PLUGINS))
        await send(message)

    return sending


def _harden(headers: MutableHeaders, *, framed: bool = False) -> None:
    headers.setdefault("Content-Security-Policy", PLUGINS_POLICY if framed else POLICY)
    headers.setdefault("X-Content-Type-Options", "nosniff")
    headers.setdefault("X-Frame-Options", "SAMEORIGIN" if framed else "DENY")
    # With "no-referrer", a form's Origin would be "null", and the guard would refuse the login.
    headers.setdefault("Referrer-Policy", "same-origin")
    headers.setdefault("Cross-Origin-Opener-Policy", "same-origin")
    headers.setdefault("Cross-Origin-Resource-Policy", "same-origin")
    headers.setdefault("Cache-Control", "no-store")
