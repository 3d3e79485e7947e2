"""Reads the names of a browser and of its operating system from the header ``User-Agent``."""

import re

_BROWSERS = (
    (r"Edg(?:A|iOS)?/(\d+)", "Edge"),
    (r"OPR/(\d+)", "Opera"),
    (r"SamsungBrowser/(\d+)", "Samsung Internet"),
    (r"(?:Firefox|FxiOS)/(\d+)", "Firefox"),
    (r"(?:Headless)?(?:Chrome|CriOS)/(\d+)", "Chrome"),
    (r"Version/(\d+)[\d.]* (?:Mobile/\S+ )?Safari/", "Safari"),
)
"""The patterns are tried in this order. Chrome and Safari are last, because most browsers also name
them."""
_SYSTEMS = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
)


def browser_name(user_agent: str) -> str:
    """Return a short name such as ``Firefox 140, Linux``.

    Args:
        user_agent: The header ``User-Agent`` of a request.

    Returns:
        The name. If the header names no known browser, the header itself.
    """
    for pattern, name in _BROWSERS:
        if found := re.search(pattern, user_agent):
            system = next((known for sign, known in _SYSTEMS if sign in user_agent), "")
            return f"{name} {found[1]}" + (f", {system}" if system else "")
    return user_agent
