"""Serves the pages before the login: ``/``, ``/login``, ``/join`` and ``/logout``.

A session begins with a name and a password (and a code, if the person has a second factor), with a
one-time link, or with the owner's token.
"""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.routing import APIRoute
from loguru import logger

from nekro_core.console.access.authentication import Authenticator, Visit
from nekro_core.console.access.guard import client_address, session_cookie, wait_headers
from nekro_core.console.access.login_forms import LoginFormRefused, LoginForms
from nekro_core.console.access.login_page import (
    code_page,
    join_page,
    login_page,
    notice_page,
    step_in_page,
)
from nekro_core.operator.audit import AuditLog, Change
from nekro_core.operator.http_routes import API, PAGE, Route, WebApiError
from nekro_core.operator.identity import InvitationSpent, WeakPassword, name_key
from nekro_core.operator.roles import AccessRole, Actor, RequestOrigin
from nekro_core.store import ConsolePerson, StoreUnavailable

_LONGEST_NAME = 100
"""Number of characters of an offered name that are read. No person's name is longer."""


class LoginPages:
    """Answers the forms of the pages before the login."""

    def __init__(self, authenticator: Authenticator, audit: AuditLog) -> None:
        self._authenticator = authenticator
        self._audit = audit
        self._identity = authenticator.identity
        self._forms = LoginForms()

    async def arrive(self, request: Request, token: str) -> Response:
        """Answer ``/``, with the token of a one-time link or without."""
        cookie = session_cookie(request.headers, self._authenticator.cookie)
        if not token or await self._authenticator.by_session(cookie, ""):
            return RedirectResponse(f"{PAGE}/", 303)
        if "prefetch" in (request.headers.get("sec-purpose") or "").lower():
            return Response(status_code=204)  # a browser's prefetch must not use up the link
        person = await self._authenticator.redeem(token)
        if person is None:
            return self._wrong_token(request, "login_link_used")
        return await self._let_in(request, person, "a link")

    async def log_in(self, request: Request) -> Response:
        """Answer the login form, which has a name and a password, or a token."""
        fields = await self._forms.read(request)
        offered = fields.get("token", "").strip()
        if not offered:
            return await self._by_password(request, fields)
        # The token of a one-time link is accepted here too, because people see it in the address
        # that the bot prints.
        if self._authenticator.is_token(offered):
            return await self._let_in(request, await self._identity.people.owner(), "the token")
        person = await self._authenticator.redeem(offered)
        if person is None:
            return self._wrong_token(request, "login_wrong")
        return await self._let_in(request, person, "a link")

    async def _by_password(self, request: Request, fields: dict[str, str]) -> Response:
        name, address = fields.get("name", "").strip(), client_address(request.scope)
        key = name_key(name[:_LONGEST_NAME])
        wait_s = self._identity.guesses.take(key, address)
        if wait_s:
            return _refused(request, "login_guesses", 429, wait_headers(wait_s))
        person = await self._identity.people.with_password(name, fields.get("password", ""))
        if person is None:
            logger.info("a login with a wrong name or password from {}", address)
            return _refused(request, "login_refused", 401)
        self._identity.guesses.succeeded(key, address)
        return await self._next_step(request, person)

    async def _next_step(self, request: Request, person: ConsolePerson) -> Response:
        if person.totp_secret:
            half = self._authenticator.half_login(person)
            return HTMLResponse(code_page(_language(request), half))
        return await self._let_in(request, person, "a password")

    async def take_code(self, request: Request) -> Response:
        """Answer the form with the code of the second factor."""
        fields = await self._forms.read(request)
        half, address = fields.get("half", ""), client_address(request.scope)
        person = await self._authenticator.half_logged_in(half)
        if person is None:
            return _refused(request, "login_ended", 401)
        key = f"code of {person.person_id}"
        wait_s = self._identity.guesses.take(key, address)
        if wait_s:
            return _refused(request, "login_guesses", 429, wait_headers(wait_s))
        if not await self._identity.second_factor.accepts(person, fields.get("code", "")):
            logger.info("a login of {} with a wrong code from {}", person.name, address)
            return HTMLResponse(code_page(_language(request), half, "code_wrong"), 401)
        self._identity.guesses.succeeded(key, address)
        self._authenticator.forget_half_login(half)
        return await self._let_in(request, person, "a password and a code")

    async def show_invitation(self, request: Request, token: str) -> Response:
        """Show the form on which an invited person chooses a password. The link still works
        afterwards, because programs that scan mails open links too."""
        try:
            person = await self._identity.people.invited(token)
        except InvitationSpent:
            return self._wrong_token(request, "join_spent")
        return HTMLResponse(join_page(_language(request), person.name, token))

    async def accept_invitation(self, request: Request) -> Response:
        """Answer the form of an invited person."""
        fields = await self._forms.read(request)
        token, password = fields.get("token", ""), fields.get("password", "")
        try:
            person = await self._identity.people.invited(token)
            try:
                person = await self._identity.people.accept(token, password)
            except WeakPassword:
                shown = join_page(_language(request), person.name, token, "join_weak")
                return HTMLResponse(shown, 422)
        except InvitationSpent:
            return self._wrong_token(request, "join_spent")
        return await self._next_step(request, person)

    async def log_out(self, request: Request) -> Response:
        """End the browser's session."""
        cookie = session_cookie(request.headers, self._authenticator.cookie)
        visit = await self._authenticator.by_session(cookie, client_address(request.scope))
        if visit is not None:
            entry_id = await self._audit.begin(visit.actor, "people.log_out", {})
            await self._identity.sessions.end(visit.session_id)
            await self._audit.done(entry_id, Change(result=None, subject=visit.actor.name))
            logger.info("{} logged out", visit.actor.name)
        response = HTMLResponse(notice_page(_language(request), "away_title", "away_help"))
        response.delete_cookie(self._authenticator.cookie, httponly=True, samesite="strict")
        return response

    async def new_link(self, request: Request) -> dict[str, str]:
        """Make a one-time link for the person who asks."""
        visit: Visit = request.state.visit
        if visit.actor.scopes is not None:
            raise WebApiError(
                403, "scope", "an API token makes no links: a link would do more than the token may"
            )
        # The link is made for the visit, not for the name: the person may change their name
        # meanwhile.
        token = self._authenticator.new_link(visit)
        return {"url": f"{request.base_url}?token={token}"}

    def _wrong_token(self, request: Request, problem: str) -> Response:
        address = client_address(request.scope)
        seconds = self._authenticator.attempts.wait_s(address)
        if seconds:
            return _refused(request, "login_wait", 429, wait_headers(seconds))
        self._authenticator.attempts.failed(address)
        return _refused(request, problem, 401)

    async def _let_in(self, request: Request, person: ConsolePerson, how: str) -> Response:
        """Begin a new session and end the browser's earlier session. Otherwise an attacker could
        put a session with a known secret into a browser, and use it after the login."""
        address = client_address(request.scope)
        actor = Actor(
            name=person.name,
            role=AccessRole(person.role),
            origin=RequestOrigin.PAGE,
            address=address,
        )
        # Only successful logins are in the audit log. Failed logins are in the bot's log, because
        # strangers could fill the audit log with them.
        entry_id = await self._audit.begin(actor, "people.log_in", {"how": how})
        session = await self._identity.sessions.begin(
            person,
            address=address,
            user_agent=request.headers.get("user-agent", ""),
            replaced=session_cookie(request.headers, self._authenticator.cookie),
        )
        if not session:
            await self._audit.failed(entry_id, "denied", f"{person.name} is not active")
            return _refused(request, "login_refused", 401)
        await self._audit.done(entry_id, Change(result=None, subject=person.name))
        logger.info("{} logged in with {} from {}", person.name, how, address)
        response = HTMLResponse(step_in_page(_language(request), f"{PAGE}/"))
        response.set_cookie(
            self._authenticator.cookie,
            session,
            max_age=int(self._identity.sessions.session_s),
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return response


class _LoginRoute(APIRoute):
    """A route whose errors become pages."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap the handler that FastAPI makes, so that the errors become pages."""
        handler = super().get_route_handler()

        async def answering(request: Request) -> Response:
            try:
                return await handler(request)
            except LoginFormRefused as refused:
                return _refused(request, "login_ended", refused.status)
            except StoreUnavailable as error:
                logger.error("{} {}: {}", request.method, request.url.path, error)
                return _refused(request, "store_down", 503)

        return answering


def login_routes(authenticator: Authenticator, audit: AuditLog) -> APIRouter:
    """Make the router of the pages before the login."""
    pages = LoginPages(authenticator, audit)
    router = APIRouter(include_in_schema=False, route_class=_LoginRoute)

    @router.get("/")
    async def arrive(request: Request, token: str = "") -> Response:
        return await pages.arrive(request, token)

    @router.get("/login")
    async def ask(request: Request) -> Response:
        return HTMLResponse(login_page(_language(request)))

    @router.post("/login")
    async def log_in(request: Request) -> Response:
        return await pages.log_in(request)

    @router.get("/login/code")
    async def begin_again() -> Response:
        return RedirectResponse("/login", 303)

    @router.post("/login/code")
    async def take_code(request: Request) -> Response:
        return await pages.take_code(request)

    @router.get("/join")
    async def show_invitation(request: Request, token: str = "") -> Response:
        return await pages.show_invitation(request, token)

    @router.post("/join")
    async def accept_invitation(request: Request) -> Response:
        return await pages.accept_invitation(request)

    @router.post("/logout")
    async def log_out(request: Request) -> Response:
        return await pages.log_out(request)

    return router


def link_routes(authenticator: Authenticator, audit: AuditLog) -> APIRouter:
    """Make the router that makes one-time links over the HTTP API."""
    pages = LoginPages(authenticator, audit)
    router = APIRouter(prefix=API, route_class=Route, include_in_schema=False)

    @router.post("/links")
    async def new_link(request: Request) -> dict[str, str]:
        return await pages.new_link(request)

    return router


def _refused(
    request: Request, problem: str, status: int, headers: dict[str, str] | None = None
) -> HTMLResponse:
    return HTMLResponse(login_page(_language(request), problem), status, headers)


def _language(request: Request) -> str:
    return request.headers.get("accept-language", "")
