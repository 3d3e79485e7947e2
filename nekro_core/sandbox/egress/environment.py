"""What programs in a box read to find their way out."""

from urllib.parse import urlsplit

EGRESS_PORT = 3128
"""Of the way out, in the box: Squid's, which programs expect of a proxy."""

_PIP = {
    # Into the box's own home, which alone is kept; nothing else can be written to.
    "PIP_USER": "1",
    "PIP_BREAK_SYSTEM_PACKAGES": "1",
    # What is kept over sleep counts against the box's disk.
    "PIP_NO_CACHE_DIR": "1",
    "PIP_NO_COMPILE": "1",
    "PIP_NO_INPUT": "1",
    # What is refused stays refused; five attempts keep a chat waiting for ten seconds.
    "PIP_RETRIES": "1",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_ROOT_USER_ACTION": "ignore",
}


def box_environment(pip_index: str = "") -> dict[str, str]:
    """The variables of a box that has a way out. ``pip_index`` is what pip asks instead of its own
    default; it has to be allowed besides."""
    address = f"http://127.0.0.1:{EGRESS_PORT}"
    # A box's own servers need no proxy.
    inner = "localhost,127.0.0.1,::1"
    # Some programs look for one spelling, some for the other.
    proxies = {"http_proxy": address, "https_proxy": address, "no_proxy": inner}
    variables = proxies | {name.upper(): value for name, value in proxies.items()} | _PIP
    # For pip even an index of the host's loopback is outside.
    variables["PIP_PROXY"] = address
    if pip_index:
        variables["PIP_INDEX_URL"] = pip_index
        parts = urlsplit(pip_index)
        if parts.scheme == "http" and parts.hostname:
            # The operator chose it; pip would not take it without TLS otherwise.
            variables["PIP_TRUSTED_HOST"] = parts.hostname
    return variables
