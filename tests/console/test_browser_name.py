"""People recognize their browsers by names, not by what browsers send."""

import pytest

from nekro_core.console.browser_name import browser_name

WEBKIT = "AppleWebKit/537.36 (KHTML, like Gecko)"


@pytest.mark.parametrize(
    ("user_agent", "name"),
    [
        (
            "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
            "Firefox, Linux",
        ),
        (
            f"Mozilla/5.0 (Windows NT 10.0; Win64; x64) {WEBKIT} Chrome/140.0.0.0 Safari/537.36",
            "Chrome, Windows",
        ),
        (
            f"Mozilla/5.0 (Windows NT 10.0) {WEBKIT} Chrome/140.0.0.0 Safari/537.36 Edg/140.0",
            "Edge, Windows",
        ),
        (
            f"Mozilla/5.0 (Linux; Android 10; K) {WEBKIT} Chrome/140.0.0.0 Mobile Safari/537.36",
            "Chrome, Android",
        ),
        (
            f"Mozilla/5.0 (iPhone; iPhone OS 18_6 like Mac OS X) {WEBKIT} Version/18 Safari/604",
            "Safari, iPhone",
        ),
        (
            f"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) {WEBKIT} Version/18.6 Safari/605",
            "Safari, macOS",
        ),
        ("curl/8.5.0", "curl/8.5.0"),
        ("", ""),
    ],
)
def test_a_browser_is_named(user_agent: str, name: str) -> None:
    assert browser_name(user_agent) == name
