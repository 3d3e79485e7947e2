"""Makes the environment variables that tell programs in a box the address of the proxy."""

from urllib.parse import urlsplit

EGRESS_PORT = 3128
"""Port of the proxy in the box: Squid's default port, which is usual for proxies."""

_PIP = {
    # pip installs into the home folder, because other folders of Python are not writable and only
    # the home folder is stored.
    "PIP_USER": "1",
    "PIP_BREAK_SYSTEM_PACKAGES": "1",
    # pip's cache and compiled modules would take space in the home folder.
    "PIP_NO_CACHE_DIR": "1",
    "PIP_NO_COMPILE": "1",
    "PIP_NO_INPUT": "1",
    # If the proxy refuses an address, more attempts are useless. pip's default of five attempts
    # takes 10 s.
    "PIP_RETRIES": "1",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_ROOT_USER_ACTION": "ignore",
}


def box_environment(pip_index: str = "") -> dict[str, str]:
    """Return the variables of a box with network access. ``pip_index`` is the package index that
    pip uses instead of its default. The box's rules must allow its address."""
    address = f"http://127.0.0.1:{EGRESS_PORT}"
    # Servers inside the box are reached without the proxy.
    inner = "localhost,127.0.0.1,::1"
    # Some programs read the names in lower case, others in upper case.
    proxies = {"http_proxy": address, "https_proxy": address, "no_proxy": inner}
    variables = proxies | {name.upper(): value for name, value in proxies.items()} | _PIP
    # `no_proxy` lists 127.0.0.1. With PIP_PROXY, pip uses the proxy even for an index at 127.0.0.1.
    variables["PIP_PROXY"] = address
    if pip_index:
        variables["PIP_INDEX_URL"] = pip_index
        parts = urlsplit(pip_index)
        if parts.scheme == "http" and parts.hostname:
            # pip refuses an index without TLS unless it is trusted. The operator chose this index.
            variables["PIP_TRUSTED_HOST"] = parts.hostname
    return variables
