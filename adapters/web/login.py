"""Serves ``/`` and ``/login``, where a one-time link or the access token begins a session."""

from collections import deque
from urllib.parse import parse_qs

import anyio
from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from .authentication import Authenticator
from .guard import PAGE, client_address, session_cookie, wait_headers
from .login_page import login_page, step_in_page

MAX_FORM_BYTES = 4096
"""Maximum number of bytes of a login form, which contains only the token."""
FORM_S = 10.0
"""Time limit for receiving the form, in seconds. A slower client would use a connection that other
clients need."""
MOST_FORMS = 32
"""Maximum number of forms that are being received at once. If there are more, the oldest is
refused. A browser sends the form in one piece."""


def login_routes(authenticator: Authenticator) -> APIRouter:
    """Make the router, which the application includes."""
    router = APIRouter(include_in_schema=False)
    coming: deque[anyio.CancelScope] = deque()

    @router.get("/")
    async def arrive(request: Request, token: str = "") -> Response:
        if not token or authenticator.is_session(
            session_cookie(request.headers, authenticator.cookie)
        ):
            return RedirectResponse(f"{PAGE}/", 303)
        if "prefetch" in (request.headers.get("sec-purpose") or "").lower():
            return Response(status_code=204)  # a prefetch must not use the link, which works once
        return _try(
            request, authenticator, worked=authenticator.redeem(token), problem="login_link_used"
        )

    @router.get("/login")
    async def ask(request: Request) -> Response:
        return HTMLResponse(login_page(_language(request)))

    @router.post("/login")
    async def log_in(request: Request) -> Response:
        body = b""
        with anyio.move_on_after(FORM_S) as patience:
            coming.append(patience)
            for oldest in [*coming][:-MOST_FORMS]:
                oldest.cancel()
            try:
                async for chunk in request.stream():
                    body += chunk
                    if len(body) > MAX_FORM_BYTES:
                        return _refused(request, "login_wrong", 413)
            finally:
                coming.remove(patience)
        if patience.cancelled_caught:
            return _refused(request, "login_wrong", 408)
        # The token of a one-time link is accepted too, because the printed address shows it.
        offered = parse_qs(body.decode("utf-8", "replace")).get("token", [""])[0].strip()
        worked = authenticator.is_token(offered) or authenticator.redeem(offered)
        return _try(request, authenticator, worked=worked, problem="login_wrong")

    return router


def _try(request: Request, authenticator: Authenticator, *, worked: bool, problem: str) -> Response:
    if not worked:
        address = client_address(request.scope)
        seconds = authenticator.attempts.wait_s(address)
        if seconds:
            return _refused(request, "login_wait", 429, wait_headers(seconds))
        authenticator.attempts.failed(address)
        return _refused(request, problem, 401)
    response = HTMLResponse(step_in_page(_language(request), f"{PAGE}/"))
    response.set_cookie(
        authenticator.cookie,
        authenticator.new_session(),
        max_age=int(authenticator.session_s),
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return response


def _refused(
    request: Request, problem: str, status: int, headers: dict[str, str] | None = None
) -> HTMLResponse:
    return HTMLResponse(login_page(_language(request), problem), status, headers)


def _language(request: Request) -> str:
    return request.headers.get("accept-language", "")
