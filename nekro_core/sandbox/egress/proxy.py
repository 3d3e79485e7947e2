"""Serves an HTTP proxy for one box. The proxy applies the box's network rules."""

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import anyio
import h11
from anyio import CancelScope
from anyio.abc import ByteStream

from nekro_core.sandbox.egress.dial import DestinationUnreachable, Dialer
from nekro_core.sandbox.egress.limits import EgressLimits, TrafficBudget, TrafficBudgetExceeded
from nekro_core.sandbox.egress.plain_http import HttpStream, PlainRequest
from nekro_core.sandbox.egress.relay import GONE, relay
from nekro_core.sandbox.egress.rules import Destination, EgressDenied, EgressRule, EgressRules

_log = logging.getLogger(__name__)

_ABSOLUTE = re.compile(r"http://([^/?#]*)([/?][^#]*)?")
_NAMES_LOGGED = 100
"""Each refused name is logged once, and at most this many names are logged for each box. So a loop
in a box cannot fill the log."""


class EgressProxy:
    """Serves the connections from one box.

    ``described`` is the text that names the box in the log. ``allowed`` returns the rules of the
    box, and is called for each connection. ``dialer`` makes the connections to the destinations.
    Their bytes count for ``budget``. ``refused`` is called with each refused destination and the
    reason.
    """

    def __init__(
        self,
        described: str,
        allowed: Callable[[], EgressRules],
        *,
        dialer: Dialer,
        budget: TrafficBudget,
        limits: EgressLimits,
        refused: Callable[[str, str], None] = lambda _destination, _reason: None,
    ) -> None:
        self._described = described
        self._allowed = allowed
        self._dialer = dialer
        self._budget = budget
        self._limits = limits
        self._refused = refused
        self._open: dict[CancelScope, Destination] = {}
        self._connections = 0
        self._logged: set[str] = set()

    def recheck(self) -> None:
        """End the connections that the rules no longer allow. Call this after a change of the
        rules."""
        rules = self._allowed()
        for scope, destination in tuple(self._open.items()):
            if rules.find(destination) is None:
                scope.cancel()

    async def serve(self, stream: ByteStream) -> None:
        """Serve one connection from the box until its end, and close it."""
        inside = HttpStream(h11.SERVER, stream)
        async with stream:
            try:
                with self._counted():
                    await self._serve(inside)
            except EgressDenied as refusal:
                await _respond(inside, 403, str(refusal))
            except DestinationUnreachable as failure:
                await _respond(inside, 502, str(failure))
            except TimeoutError:
                await _respond(inside, 408, "the request did not come in time")
            except TrafficBudgetExceeded:
                self._log_once("budget", "has used up its traffic of this hour")
                await _respond(
                    inside, 429, "this chat's boxes have used up their traffic of the hour"
                )
            except h11.ProtocolError:
                await _respond(
                    inside, 400, "this is a proxy for HTTP: absolute addresses or CONNECT"
                )
            except GONE:
                return
            except Exception:  # noqa: BLE001 (logged with its traceback)
                # A bug in one connection must not end the proxies of all boxes.
                _log.exception("a connection of %s broke", self._described)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        if self._connections >= self._limits.connections:
            raise DestinationUnreachable(
                f"{self._connections} connections of this box are open already"
            )
        self._connections += 1
        try:
            yield
        finally:
            self._connections -= 1

    async def _serve(self, inside: HttpStream) -> None:
        with anyio.fail_after(self._limits.request_s):
            request = await inside.next()
        assert isinstance(request, h11.Request)
        target = request.target.decode("ascii")
        connects = request.method == b"CONNECT"
        try:
            destination, path = _wanted(target, connects=connects)
        except EgressDenied as refusal:
            self._refused(target, str(refusal))
            raise
        with CancelScope() as scope:
            # The connection is registered before the rules are read. So `recheck` ends the
            # connection if the rules change after this point.
            self._open[scope] = destination
            try:
                await self._pass(inside, request, destination, path, connects=connects)
            except TrafficBudgetExceeded:
                self._refused(str(destination), "the traffic of this hour is used up")
                raise
            finally:
                del self._open[scope]

    async def _pass(
        self,
        inside: HttpStream,
        request: h11.Request,
        destination: Destination,
        path: str,
        *,
        connects: bool,
    ) -> None:
        rule = self._permitted(destination)
        self._budget.spend(0)
        try:
            outside = await self._dialer.dial(destination, rule)
        except EgressDenied as refusal:
            self._log_once(str(destination), f"may not reach {destination}: {refusal}")
            self._refused(str(destination), str(refusal))
            raise
        async with outside:
            with anyio.move_on_after(self._limits.connection_s):
                if connects:
                    await self._tunnel(inside, outside)
                else:
                    host = destination.host if destination.port == 80 else str(destination)
                    plain = PlainRequest(
                        request, path, host, idle_s=self._limits.idle_s, count=self._budget.spend
                    )
                    await plain.pass_on(inside, outside)

    def _permitted(self, destination: Destination) -> EgressRule:
        rule = self._allowed().find(destination)
        if rule is None:
            self._log_once(str(destination), f"may not reach {destination}: no rule allows it")
            self._refused(str(destination), "no rule allows it")
            raise EgressDenied(
                f"{destination} is not among what this box may reach. The bot's operator can allow "
                "it: NEKRO_SANDBOX__EGRESS"
            )
        return rule

    async def _tunnel(self, inside: HttpStream, outside: ByteStream) -> None:
        # This reads h11's EndOfMessage, because a CONNECT has no body.
        await inside.next()
        await inside.send(h11.Response(status_code=200, headers=[], reason=b"Connected"))
        early, _ = inside.state.trailing_data
        if early:
            self._budget.spend(len(early))
            await outside.send(early)
        await relay(inside.stream, outside, idle_s=self._limits.idle_s, count=self._budget.spend)

    def _log_once(self, key: str, what: str) -> None:
        if key in self._logged or len(self._logged) > _NAMES_LOGGED:
            return
        self._logged.add(key)
        if len(self._logged) > _NAMES_LOGGED:
            what = "asked for so many names that the rest are not written here"
        _log.warning("%s %s", self._described, what)


def _wanted(target: str, *, connects: bool) -> tuple[Destination, str]:
    """Return the destination of a request, and its path with the query. Raises `EgressDenied`."""
    if connects:
        return Destination.parse(target), ""
    found = _ABSOLUTE.fullmatch(target)
    if found is None:
        raise EgressDenied("this is a proxy: it takes http:// addresses, and CONNECT for https")
    path = found[2] or "/"
    return Destination.parse(found[1], 80), path if path.startswith("/") else f"/{path}"


async def _respond(inside: HttpStream, status: int, sentence: str) -> None:
    """Answer with a sentence. Does nothing if an answer has begun already."""
    body = f"{sentence}\n".encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    # The sentence is also the reason phrase, because pip and other programs do not show the body.
    reason = sentence.encode("ascii", "replace")[:200]
    try:
        with anyio.move_on_after(5):
            await inside.send(h11.Response(status_code=status, headers=headers, reason=reason))
            await inside.send(h11.Data(body))
            await inside.send(h11.EndOfMessage())
    except (h11.LocalProtocolError, *GONE):
        return
