"""The environment variables that tell programs in a box where the proxy is."""

from urllib.parse import urlsplit

EGRESS_PORT = 3128
"""Port of the proxy in the box. It is Squid's, the usual port of a proxy."""

_PIP = {
    # Into the box's home folder: only that is stored, and nothing else is writable.
    "PIP_USER": "1",
    "PIP_BREAK_SYSTEM_PACKAGES": "1",
    # What is stored while the box sleeps counts against its disk.
    "PIP_NO_CACHE_DIR": "1",
    "PIP_NO_COMPILE": "1",
    "PIP_NO_INPUT": "1",
    # A refused address stays refused, and five attempts make a chat wait for ten seconds.
    "PIP_RETRIES": "1",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_ROOT_USER_ACTION": "ignore",
}


def box_environment(pip_index: str = "") -> dict[str, str]:
    """Return the variables of a box with network access. ``pip_index`` is the index that pip uses
    instead of its default; rules must allow it too."""
    address = f"http://127.0.0.1:{EGRESS_PORT}"
    # A box's own servers need no proxy.
    inner = "localhost,127.0.0.1,::1"
    # Some programs look for one spelling, some for the other.
    proxies = {"http_proxy": address, "https_proxy": address, "no_proxy": inner}
    variables = proxies | {name.upper(): value for name, value in proxies.items()} | _PIP
    # pip must use the proxy even for an index at the host's loopback address.
    variables["PIP_PROXY"] = address
    if pip_index:
        variables["PIP_INDEX_URL"] = pip_index
        parts = urlsplit(pip_index)
        if parts.scheme == "http" and parts.hostname:
            # The operator chose it; otherwise pip refuses an index without TLS.
            variables["PIP_TRUSTED_HOST"] = parts.hostname
    return variables
