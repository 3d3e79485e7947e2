"""Forwarded headers count only if they come from a proxy that the operator has named."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from nekro_core.app.settings import Settings
from nekro_core.app.settings_sources import SettingsError
from nekro_core.app.web_server_settings import WebServerSettings
from nekro_core.console.access.login_attempts import MAX_FAILURES
from tests.adapters.web.running import NO_TLS
from tests.e2e.bot_process import BotProcess, running_bot


@asynccontextmanager
async def bot_behind(folder: Path, **settings: str) -> AsyncIterator[BotProcess]:
    given = {
        "FORWARDED_ALLOW_IPS": "*",  # by default uvicorn would trust these addresses
        "NEKRO_LLM__BASE_URL": "http://127.0.0.1:9/v1",
        "NEKRO_LLM__MODEL": "none",
        **settings,
    }
    async with running_bot(folder, BotProcess.command, None, **given) as bot:
        yield bot


async def guess(bot: BotProcess, headers: Mapping[str, str], times: int = 1) -> list[int]:
    async with httpx.AsyncClient(base_url=bot.address, verify=NO_TLS) as somebody:
        data = {"token": "wrong"}
        answers = [await somebody.post("/login", data=data, headers=headers) for _ in range(times)]
    return [answer.status_code for answer in answers]


async def log_in(bot: BotProcess, **headers: str) -> httpx.Response:
    async with httpx.AsyncClient(base_url=bot.address, verify=NO_TLS) as owner:
        answer = await owner.post("/login", data={"token": bot.token}, headers=headers)
        assert answer.status_code == 200
        return answer


async def test_forwarded_headers_are_ignored_without_a_named_proxy(tmp_path: Path) -> None:
    async with bot_behind(tmp_path) as bot:
        statuses = []
        for last in range(MAX_FAILURES + 2):
            statuses += await guess(bot, {"X-Forwarded-For": f"198.51.100.{last}"})
        assert statuses == [401] * MAX_FAILURES + [429] * 2
        answer = await log_in(bot, **{"X-Forwarded-For": "x", "X-Forwarded-Proto": "https"})
        # A browser on plain http would not store a secure cookie.
        assert "secure" not in answer.headers["set-cookie"].lower()
        bearer = {"Authorization": f"Bearer {bot.token}", "X-Forwarded-Proto": "https"}
        async with httpx.AsyncClient(base_url=bot.address, verify=NO_TLS) as script:
            link = (await script.post("/api/v1/links", headers=bearer)).json()["url"]
        assert link.startswith("http://")


async def test_forwarded_headers_of_a_named_proxy_are_used(tmp_path: Path) -> None:
    named = '["192.0.2.1", "127.0.0.0/30"]'
    async with bot_behind(tmp_path, NEKRO_WEB__TRUSTED_PROXIES=named) as bot:
        # The visitor made up the first address. The proxy appended the second one.
        for made_up in range(MAX_FAILURES):
            headers = {"X-Forwarded-For": f"203.0.113.{made_up}, 198.51.100.7"}
            assert await guess(bot, headers) == [401]
        assert await guess(bot, {"X-Forwarded-For": "198.51.100.7"}) == [429]
        assert await guess(bot, {"X-Forwarded-For": "198.51.100.8"}) == [401]
        https = {"X-Forwarded-For": "198.51.100.7", "X-Forwarded-Proto": "https"}
        answer = await log_in(bot, **https)
        assert "secure" in answer.headers["set-cookie"].lower()


def test_a_proxy_is_recognized_on_a_dual_stack_socket() -> None:
    # With HOST=::, a client at 192.0.2.1 has the address ::ffff:192.0.2.1.
    settings = WebServerSettings(trusted_proxies=("192.0.2.1", "10.0.0.0/8", "2001:db8::/32"))
    trusted = ProxyHeadersMiddleware(None, settings.options()["forwarded_allow_ips"])  # type: ignore[arg-type]
    hosts = trusted.trusted_hosts
    for address in ("192.0.2.1", "::ffff:192.0.2.1", "::ffff:10.9.8.7", "2001:db8::7"):
        assert address in hosts, address
    for address in ("192.0.2.2", "::ffff:192.0.2.2", "::ffff:11.0.0.1", "127.0.0.1", "::1", "x"):
        assert address not in hosts, address


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ('["*"]', "expected the address of a proxy"),
        ('["nginx"]', "expected the address of a proxy"),
        ('["0.0.0.0/0"]', "is everybody"),
        ('["::/0"]', "is everybody"),
    ],
)
def test_an_entry_that_is_not_a_proxy_address_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str, said: str
) -> None:
    monkeypatch.setenv("NEKRO_WEB__TRUSTED_PROXIES", written)
    with pytest.raises(SettingsError, match=f"NEKRO_WEB__TRUSTED_PROXIES.*{said}"):
        Settings.load(tmp_path)
