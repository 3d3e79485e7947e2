"""Checks the network up to an endpoint: whether its host name exists, whether it accepts a
connection, and whether TLS works."""

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
    """The host to which the bot connects: the endpoint, or the proxy before it."""

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
    step fails, the later steps are not tried.

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

    def say(verdict: ProbeVerdict, code: str, advice: str = "", **values: str) -> None:
        seconds = anyio.current_time() - began
        step = ProbeStep.NAME
        tell(ProbeResult.of(step, verdict, code, code, advice, seconds=seconds, **values))

    spelling = "check_proxy_name" if way.proxied else "check_base_url"
    try:
        with anyio.fail_after(limit_s):
            found = await anyio.getaddrinfo(way.host, way.port, type=socket.SOCK_STREAM)
    except TimeoutError:
        say(FAILED, "name_timeout", "check_dns", host=way.host, limit=f"{limit_s:g}")
        return False
    except (OSError, UnicodeError):
        say(FAILED, "name_not_found", spelling, host=way.host)
        return False
    say(OK, "found", host=way.host, address=str(found[0][4][0]))
    return True


async def _probe_connection(way: _Way, limit_s: float, tell: Callable[[ProbeResult], None]) -> bool:
    began = anyio.current_time()
    try:
        with anyio.fail_after(limit_s):
            stream = await anyio.connect_tcp(way.host, way.port)
    except (TimeoutError, OSError) as error:
        code, advice, inner = _no_connection(error)
        tell(
            ProbeResult.of(
                ProbeStep.CONNECTION, FAILED, code, code, advice,
                seconds=anyio.current_time() - began,
                host=way.shown, limit=f"{limit_s:g}", error=str(inner),
            )
        )  # fmt: skip
        return False
    tell(
        ProbeResult.of(
            ProbeStep.CONNECTION, OK, "connected", "connected",
            seconds=anyio.current_time() - began, host=way.shown,
        )
    )  # fmt: skip
    async with stream:
        result = await _probe_tls(stream, way, limit_s)
    tell(result)
    return result.verdict is not FAILED


def _no_connection(error: BaseException) -> tuple[str, str, BaseException]:
    """Return the codes of the text and of the advice for a failed connection, and its cause."""
    inner: BaseException = error
    while isinstance(inner.__cause__, BaseException):
        inner = inner.__cause__
    while isinstance(inner, BaseExceptionGroup):
        inner = inner.exceptions[0]
    if isinstance(inner, ConnectionRefusedError):
        return "refused", "check_port", inner
    if isinstance(inner, TimeoutError):
        return "connection_timeout", "check_firewall", inner
    return "no_connection", "check_network", inner


async def _probe_tls(stream: ByteStream, way: _Way, limit_s: float) -> ProbeResult:
    began = anyio.current_time()

    def result(verdict: ProbeVerdict, code: str, advice: str = "", **values: str) -> ProbeResult:
        seconds = anyio.current_time() - began
        return ProbeResult.of(ProbeStep.TLS, verdict, code, code, advice, seconds=seconds, **values)

    if way.proxied:
        return result(UNKNOWN, "behind_proxy")
    if not way.tls_name:
        return result(OK, "not_used")
    context = await anyio.to_thread.run_sync(trusted_certificates)
    try:
        with anyio.fail_after(limit_s):
            wrapped = await TLSStream.wrap(
                stream, hostname=way.tls_name, ssl_context=context, standard_compatible=False
            )
    except TimeoutError:
        return result(FAILED, "tls_timeout", "write_http", host=way.shown)
    except ssl.SSLCertVerificationError as error:
        why = str(error.verify_message)
        return result(FAILED, "certificate", "check_certificate", host=way.host, error=why)
    except (ssl.SSLError, OSError, anyio.BrokenResourceError, anyio.EndOfStream):
        return result(FAILED, "no_tls", "write_http_or_check_port", host=way.shown)
    version = wrapped.extra(TLSAttribute.tls_version)  # noqa: S610 - not a method of Django
    return result(OK, "encrypted", host=way.host, version=str(version))
