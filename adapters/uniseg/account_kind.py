"""Defines the settings of accounts on the platforms that NoneBot's adapters reach, and how to check
them."""

import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import httpx
from pydantic import BaseModel, ConfigDict

from nekro_core.api.adapter import ConnectionProblem, ConnectionTestFailed


class UnisegAccount(BaseModel):
    """The settings of one account. Each platform has a subclass."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @property
    def key(self) -> str:
        """The part of the settings that identifies the account and contains no secret."""
        raise NotImplementedError

    def entry(self) -> dict[str, Any]:
        """Return the account's entry in the setting of the stock adapter (NoneBot's adapter for the
        platform)."""
        raise NotImplementedError


Account = TypeVar("Account", bound=UnisegAccount)


@dataclass(frozen=True, kw_only=True)
class AccountKind(Generic[Account]):
    """The accounts of a platform.

    Attributes:
        model: The settings of one account.
        setting: The name of the stock adapter's setting that lists the accounts, in lower case.
        check: Asks the platform, through a proxy if one is given, whether an account's settings are
            right, and returns what was found. Raises `ConnectionTestFailed`.
        hint: What the operator must do on the platform.
        without: Settings that switch off the routes of the stock adapter, each with its value. They
            apply to the stock adapter of a single account.
        proxy: The name of the setting with a proxy's address, in lower case. It is empty if the
            stock adapter has no such setting.
        reports: Whether the stock adapter itself reports why an account cannot connect. If not, the
            settings are checked before it connects.
    """

    model: type[Account]
    setting: str
    check: Callable[[Account, str | None], Awaitable[str]]
    hint: str
    without: Mapping[str, Any] = field(default_factory=dict)
    proxy: str = ""
    reports: bool = False


async def ask(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    body: Any = None,
    proxy: str | None = None,
) -> tuple[int, dict[str, Any]]:
    """Make an HTTP request for a connection test. Returns the status and the JSON object of the
    answer. The addresses in errors are without their paths, which may contain a token.

    Raises `ConnectionTestFailed`.
    """
    place = httpx.URL(url).copy_with(raw_path=b"/")
    try:
        async with httpx.AsyncClient(timeout=15, proxy=proxy) as client:
            answer = await client.request(method, url, headers=dict(headers or {}), json=body)
    except httpx.TimeoutException:
        problem, words = ConnectionProblem.TOO_SLOW, "no answer came in time"
    except httpx.ConnectError as error:
        encrypted = isinstance(error.__cause__, ssl.SSLError) or "SSL" in str(error)
        problem = ConnectionProblem.TLS if encrypted else ConnectionProblem.UNREACHABLE
        words = f"it cannot be reached: {error}"
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        problem, words = ConnectionProblem.NOT_THE_PLATFORM, f"no HTTP server answers: {error!r}"
    else:
        try:
            parsed = answer.json()
        except ValueError:
            parsed = None
        if answer.status_code in (401, 403):
            raise ConnectionTestFailed(
                ConnectionProblem.REFUSED, f"{place}: the token is refused ({answer.status_code})"
            )
        if isinstance(parsed, dict):
            return answer.status_code, parsed
        problem = ConnectionProblem.NOT_THE_PLATFORM
        words = f"it answers with status {answer.status_code} and no JSON object"
    raise ConnectionTestFailed(problem, f"{place}: {words}")


def refused(words: str) -> ConnectionTestFailed:
    """Return the error for an account that the platform refuses. ``words`` says why."""
    return ConnectionTestFailed(ConnectionProblem.REFUSED, words)
