"""Who may read the metrics: programs on this machine, people who are logged in, and requests with
an API token that has the scope `metrics:read`. Others may only if the operator allows it."""

from collections.abc import Mapping
from pathlib import Path

import httpx
import pytest

from nekro_core.system.telemetry.readiness import Readiness, ReadinessCheck
from tests.adapters.web.running import Web, web
from tests.console.access.visitors import add_person, logged_in

FORWARDED = ("Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP", "Via")


class Monitor:
    """Plays the bot that is asked for its state and its metrics. A test sets ``problem`` to the
    reason why the bot is not ready; empty if it is."""

    def __init__(self, readers: str = "loopback") -> None:
        self.readers = readers
        self.problem = ""

    async def readiness(self) -> Readiness:
        check = ReadinessCheck(name="model", ok=not self.problem, reason=self.problem)
        return Readiness(checks=(check,))

    async def metrics_text(self) -> tuple[bytes, str]:
        return b"nekro_steps_total 1.0\n", "text/plain; version=0.0.4"


async def got(chat: Web, path: str, headers: Mapping[str, str] | None = None) -> httpx.Response:
    async with chat.stranger() as stranger:
        return await stranger.get(path, headers=headers)


async def token(chat: Web, *scopes: str) -> Mapping[str, str]:
    """Make an API token with these scopes for a new viewer, and return the header with it."""
    person = await add_person(chat, f"prometheus {len(scopes)} {scopes[0]}")
    secret, _ = await chat.site.identity.tokens.make(person, name="scrape", scopes=scopes)
    return {"Authorization": f"Bearer {secret}"}


async def test_a_program_of_this_machine_needs_no_token(tmp_path: Path) -> None:
    async with web(tmp_path, monitor=Monitor()) as chat:
        for host in ("", "localhost:80", "[::1]:80", "127.0.0.9"):
            answer = await got(chat, "/metrics", {"Host": host} if host else None)
            assert (answer.status_code, answer.text) == (200, "nekro_steps_total 1.0\n"), host
            assert answer.headers["content-type"] == "text/plain; version=0.0.4"


@pytest.mark.parametrize("name", FORWARDED)
async def test_a_request_that_a_proxy_passes_on_is_not_of_this_machine(
    tmp_path: Path, name: str
) -> None:
    async with web(tmp_path, monitor=Monitor()) as chat:
        answer = await got(chat, "/metrics", {name: "203.0.113.7"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "login")
        answer = await got(chat, "/readyz", {name: "203.0.113.7"})
        assert (answer.status_code, answer.json()) == (200, {"ready": True})


@pytest.mark.parametrize(
    ("headers", "settings", "status"),
    [
        ({"Host": "192.0.2.4:8080"}, {}, 401),
        ({"Host": "bot.example"}, {"web_allowed_hosts": ["bot.example"]}, 401),
        # The site has a host name, so a proxy may be in front of the bot. This request looks like
        # one of this machine, but may be one whose Host header a proxy has replaced.
        ({}, {"web_allowed_hosts": ["bot.example"]}, 401),
        # A page of a stranger whose host name leads to 127.0.0.1 sends this request.
        ({"Host": "evil.example"}, {}, 421),
        ({"Origin": "https://evil.example"}, {}, 403),
    ],
)
async def test_requests_that_may_come_from_another_machine_need_a_token(
    tmp_path: Path, headers: Mapping[str, str], settings: Mapping[str, object], status: int
) -> None:
    async with web(tmp_path, monitor=Monitor(), **settings) as chat:
        assert (await got(chat, "/metrics", headers)).status_code == status


async def test_a_token_with_the_scope_reads_from_everywhere(tmp_path: Path) -> None:
    async with web(tmp_path, monitor=Monitor("token")) as chat:
        assert (await got(chat, "/metrics")).status_code == 401
        for scope, status in (("metrics:read", 200), ("*:read", 200), ("turns:read", 403)):
            answer = await got(chat, "/metrics", await token(chat, scope))
            assert answer.status_code == status, scope
        wrong = await got(chat, "/metrics", {"Authorization": "Bearer made-up"})
        assert (wrong.status_code, wrong.json()["error"]["code"]) == (401, "token")
        async with logged_in(chat, "lin") as browser:
            assert (await browser.get("/metrics")).status_code == 200
        assert (await chat.client.get("/metrics")).status_code == 200


async def test_an_operator_can_let_anyone_read_while_the_bot_runs(tmp_path: Path) -> None:
    monitor = Monitor()
    async with web(tmp_path, monitor=monitor) as chat:
        through = {"X-Forwarded-For": "203.0.113.7"}
        assert (await got(chat, "/metrics", through)).status_code == 401
        monitor.readers = "anyone"
        assert (await got(chat, "/metrics", through)).status_code == 200


async def test_the_bot_says_why_it_is_not_ready_only_to_those_who_may_know(tmp_path: Path) -> None:
    monitor = Monitor()
    monitor.problem = "default cools down after a failure (key)"
    through = {"X-Forwarded-For": "203.0.113.7"}
    async with web(tmp_path, monitor=monitor) as chat:
        mine, others = await got(chat, "/readyz"), await got(chat, "/readyz", through)
        assert mine.status_code == others.status_code == 503
        assert mine.json() == {
            "ready": False,
            "checks": {"model": {"ok": False, "reason": monitor.problem}},
        }
        assert others.json() == {"ready": False}
        told = await got(chat, "/readyz", {**through, **await token(chat, "metrics:read")})
        assert told.json() == mine.json()
        told = await got(chat, "/readyz", {**through, **await token(chat, "turns:read")})
        assert told.json() == others.json()
        monitor.problem = ""
        assert (await got(chat, "/readyz", through)).status_code == 200


async def test_everybody_may_ask_whether_the_process_lives(tmp_path: Path) -> None:
    async with web(tmp_path, monitor=Monitor("token")) as chat:
        answer = await got(chat, "/healthz", {"X-Forwarded-For": "203.0.113.7"})
        assert (answer.status_code, answer.json()) == (200, {"alive": True})
        async with chat.stranger() as stranger:
            assert (await stranger.post("/healthz", content=b"x")).status_code == 405
