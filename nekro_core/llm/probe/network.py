"""Checks the way to an endpoint: its name, the connection, and TLS."""

import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
from anyio.abc import ByteStream
from anyio.streams.tls import TLSAttribute, TLSStream

from nekro_core.llm.endpoint import trusted_certificates
from nekro_core.llm.probe.report import ProbeResult, ProbeStep, ProbeVerdict
from nekro_core.llm.settings import LLMSettings
from nekro_core.system.proxies import environment_proxy

_DEFAULT_PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}

OK, FAILED, UNKNOWN = ProbeVerdict.OK, ProbeVerdict.FAILED, ProbeVerdict.UNKNOWN


@dataclass(frozen=True, slots=True)
class _Way:
    """The host that is connected first: the endpoint, or the proxy before it."""

    host: str
    port: int
    tls_name: str
    proxied: bool

    @property
    def shown(self) -> str:
        return f"the proxy {self.host}:{self.port}" if self.proxied else f"{self.host}:{self.port}"


async def probe_network(
    settings: LLMSettings, limit_s: float, tell: Callable[[ProbeResult], None]
) -> bool:
    """Check the steps ``name``, ``connection`` and ``tls``, each within ``limit_s`` seconds. If a
    step fails, the later ones are not tried.

    With a proxy, the name and the connection of the proxy are checked. Only the proxy connects to
    the endpoint, so TLS is not checked separately.

    Returns:
        Whether the endpoint can be asked.
    """
    way = _way(settings)
    if not await _probe_name(way, limit_s, tell):
        return False
    return await _probe_connection(way, limit_s, tell)


def _way(settings: LLMSettings) -> _Way:
    address = urlsplit(settings.base_url)
    proxy = settings.proxy or environment_proxy(settings.base_url)
    tls_name = (address.hostname or "") if address.scheme == "https" and not proxy else ""
    if proxy:
        address = urlsplit(proxy)
    port = address.port or _DEFAULT_PORTS.get(address.scheme, 80)
    return _Way(address.hostname or "", port, tls_name, bool(proxy))


async def _probe_name(way: _Way, limit_s: float, tell: Callable[[ProbeResult], None]) -> bool:
    began = anyio.current_time()

    def say(verdict: ProbeVerdict, reason: str, text: str, advice: str = "") -> None:
        seconds = anyio.current_time() - began
        tell(
            ProbeResult(
                step=ProbeStep.NAME, verdict=verdict, reason=reason, text=text, advice=advice,
                seconds=seconds,
            )
        )  # fmt: skip

    where = "the proxy" if way.proxied else "base_url"
    try:
        with anyio.fail_after(limit_s):
            found = await anyio.getaddrinfo(way.host, way.port, type=socket.SOCK_STREAM)
    except TimeoutError:
        say(
            FAILED, "name_timeout", f"the name {way.host} was not found within {limit_s:g} s",
            "Check this machine's DNS server.",
        )  # fmt: skip
        return False
    except (OSError, UnicodeError):
        say(
            FAILED, "name_not_found", f"there is no host {way.host!r}, or DNS does not work here",
            f"Check the spelling of {where}, and that this machine can look up names.",
        )  # fmt: skip
        return False
    say(OK, "found", f"{way.host} is {found[0][4][0]}")
    return True


async def _probe_connection(way: _Way, limit_s: float, tell: Callable[[ProbeResult], None]) -> bool:
    began = anyio.current_time()
    try:
        with anyio.fail_after(limit_s):
            stream = await anyio.connect_tcp(way.host, way.port)
    except (TimeoutError, OSError) as error:
        reason, text, advice = _no_connection(error, way, limit_s)
        tell(
            ProbeResult(
                step=ProbeStep.CONNECTION, verdict=FAILED, reason=reason, text=text, advice=advice,
                seconds=anyio.current_time() - began,
            )
        )  # fmt: skip
        return False
    tell(
        ProbeResult(
            step=ProbeStep.CONNECTION, verdict=OK, reason="connected",
            text=f"{way.shown} takes connections", seconds=anyio.current_time() - began,
        )
    )  # fmt: skip
    async with stream:
        result = await _probe_tls(stream, way, limit_s)
    tell(result)
    return result.verdict is not FAILED


def _no_connection(error: BaseException, way: _Way, limit_s: float) -> tuple[str, str, str]:
    """Return the reason, the text and the advice for a failed connection."""
    inner: BaseException = error
    while isinstance(inner.__cause__, BaseException):
        inner = inner.__cause__
    while isinstance(inner, BaseExceptionGroup):
        inner = inner.exceptions[0]
    if isinstance(inner, ConnectionRefusedError):
        return (
            "refused",
            f"{way.shown} refuses connections: no program listens there",
            "Check the port and that the server runs. Another container is not at 127.0.0.1.",
        )
    if isinstance(inner, TimeoutError):
        return (
            "connection_timeout",
            f"{way.shown} did not answer within {limit_s:g} s",
            "A firewall may block the way, or the provider may need a proxy from here.",
        )
    return (
        "no_connection",
        f"there is no connection to {way.shown}: {inner}",
        "Check this machine's network.",
    )


async def _probe_tls(stream: ByteStream, way: _Way, limit_s: float) -> ProbeResult:
    began = anyio.current_time()

    def result(verdict: ProbeVerdict, reason: str, text: str, advice: str = "") -> ProbeResult:
        return ProbeResult(
            step=ProbeStep.TLS, verdict=verdict, reason=reason, text=text, advice=advice,
            seconds=anyio.current_time() - began,
        )  # fmt: skip

    if way.proxied:
        return result(UNKNOWN, "behind_proxy", "the proxy makes the connection to the endpoint")
    if not way.tls_name:
        return result(OK, "not_used", "the address begins with http://, so nothing is encrypted")
    context = await anyio.to_thread.run_sync(trusted_certificates)
    try:
        with anyio.fail_after(limit_s):
            wrapped = await TLSStream.wrap(
                stream, hostname=way.tls_name, ssl_context=context, standard_compatible=False
            )
    except TimeoutError:
        return result(
            FAILED, "tls_timeout", f"{way.shown} did not answer the TLS handshake",
            "If the server does not encrypt, write http:// instead of https://.",
        )  # fmt: skip
    except ssl.SSLCertVerificationError as error:
        return result(
            FAILED, "certificate", f"the certificate of {way.host} is not accepted: "
            f"{error.verify_message}",
            "Check this machine's clock and the address. For a certificate of your own, add its "
            "authority to the machine's trusted ones, or set SSL_CERT_FILE.",
        )  # fmt: skip
    except (ssl.SSLError, OSError, anyio.BrokenResourceError, anyio.EndOfStream):
        return result(
            FAILED, "no_tls", f"{way.shown} does not speak TLS",
            "If the server does not encrypt, write http:// instead of https://. Otherwise check "
            "the port.",
        )  # fmt: skip
    version = wrapped.extra(TLSAttribute.tls_version)  # noqa: S610 - no Django
    return result(OK, "encrypted", f"the certificate of {way.host} is valid ({version})")
