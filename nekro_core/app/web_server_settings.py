"""Defines the settings of the web server: ``NEKRO_WEB__...``."""

import ipaddress
from typing import Any

from pydantic import field_validator

from nekro_core.system.live_settings import LiveSettings


class WebServerSettings(LiveSettings):
    """The proxies whose headers about the client the web server trusts."""

    trusted_proxies: tuple[str, ...] = ()
    """Addresses or networks (``10.0.0.0/8``) of the reverse proxies in front of the bot. The
    headers ``X-Forwarded-For`` and ``X-Forwarded-Proto``, which name the client and the scheme, are
    used only if one of these proxies sends the request. Anybody who reaches the port can write
    these headers, so by default they are ignored, even from loopback."""

    @field_validator("trusted_proxies")
    @classmethod
    def _addresses(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for each in value:
            try:
                network = ipaddress.ip_network(each)
            except ValueError:
                raise ValueError(
                    f"{each!r}: expected the address of a proxy or a network of them, for example "
                    '["127.0.0.1"] or ["172.18.0.0/16"]'
                ) from None
            if not network.prefixlen:
                raise ValueError(f"{each!r} is everybody: name the proxy's own address")
        return value

    def options(self) -> dict[str, Any]:
        """Return the options for `uvicorn.Config`. uvicorn's default is not used. It trusts
        ``FORWARDED_ALLOW_IPS``, or loopback if this is not set, and all users and tunnels of the
        machine can use loopback."""
        networks = [ipaddress.ip_network(each) for each in self.trusted_proxies]
        # Add each IPv4 network in its IPv6 form: on a dual-stack socket (HOST=::), an IPv4 client
        # has an address such as ::ffff:192.0.2.1.
        mapped = [
            f"::ffff:{each.network_address}/{96 + each.prefixlen}"
            for each in networks
            if each.version == 4
        ]
        trusted = [*map(str, networks), *mapped]
        return {"proxy_headers": bool(trusted), "forwarded_allow_ips": trusted}
