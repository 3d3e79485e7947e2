"""Makes clients that fetch through a proxy and connect to an address that was checked before."""

import ssl

import certifi
import httpx

_ALL_ENDS = httpx.Limits(max_keepalive_connections=0)


class _NamedContext(ssl.SSLContext):
    """Encrypts for the host ``name``, whatever host a caller connects to.

    httpx asks a proxy to connect to the host of the URL, and expects a certificate for the same
    host. In this bot the URL contains the checked address, but the certificate contains the name.
    """

    name: str

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """See `ssl.SSLContext.wrap_bio`. ``server_hostname`` is ignored."""
        del server_hostname
        return super().wrap_bio(incoming, outgoing, server_side, self.name, session)


def proxied_client(proxy: str, name: str, silent_s: float) -> httpx.AsyncClient:
    """A client for one request to the host ``name`` through a proxy. The certificates of the
    operator's system are trusted too, because a proxy may use a certificate of its own. Raises
    `httpx.InvalidURL` and `ValueError` for a proxy that cannot be used."""
    context = _NamedContext(ssl.PROTOCOL_TLS_CLIENT)
    context.name = name
    context.load_default_certs()
    context.load_verify_locations(certifi.where())
    try:
        return httpx.AsyncClient(
            proxy=proxy, verify=context, trust_env=False, timeout=silent_s, limits=_ALL_ENDS
        )
    except ImportError as error:  # SOCKS needs a package that may be missing
        raise ValueError(
            f"the proxy {proxy.partition('://')[0]}:// cannot be used: {error}"
        ) from None
