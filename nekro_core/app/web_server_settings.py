"""Settings of the web server: ``NEKRO_WEB__...``."""

import ipaddress
from typing import Any

from pydantic import BaseModel, ConfigDict, field_validator


class WebServerSettings(BaseModel):
    """Whom the web server believes about who is at the other end."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    trusted_proxies: tuple[str, ...] = ()
    """Addresses, or networks (``10.0.0.0/8``), of the reverse proxies before the bot. Only what
    comes from them may say by ``X-Forwarded-For`` and ``X-Forwarded-Proto`` who asks and whether by
    https. Anybody who reaches the port can write these headers, so by default nobody is believed,
    not even loopback."""

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
        """What `uvicorn.Config` is given. By default it would believe all of loopback, where every
        user of the machine and the end of every tunnel is, and whom ``FORWARDED_ALLOW_IPS``
        names."""
        networks = [ipaddress.ip_network(each) for each in self.trusted_proxies]
        # On a socket of both families (HOST=::) somebody of IPv4 comes as ::ffff:192.0.2.1.
        mapped = [
            f"::ffff:{each.network_address}/{96 + each.prefixlen}"
            for each in networks
            if each.version == 4
        ]
        trusted = [*map(str, networks), *mapped]
        return {"proxy_headers": bool(trusted), "forwarded_allow_ips": trusted}
