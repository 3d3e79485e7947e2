"""The user agent of a browser becomes a short name that people know."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nekro_core.console.browser_name import browser_name

KHTML = "(KHTML, like Gecko)"
WEBKIT = f"AppleWebKit/537.36 {KHTML}"
APPLE = f"AppleWebKit/605.1.15 {KHTML}"


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("(X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox 140, Linux"),
        (f"(X11; Linux x86_64) {WEBKIT} Chrome/141.0.0.0 Safari/537.36", "Chrome 141, Linux"),
        (f"(Windows NT 10.0) {WEBKIT} Chrome/141.0 Safari/537.36 Edg/141.0", "Edge 141, Windows"),
        (
            f"(Macintosh; Intel Mac OS X 10_15) {APPLE} Version/26.0 Safari/605.1",
            "Safari 26, macOS",
        ),
        (
            f"(iPhone; CPU iPhone OS 18_6 like Mac OS X) {APPLE} Version/18.6 Mobile/15E Safari/6",
            "Safari 18, iPhone",
        ),
        (f"(Linux; Android 10) {WEBKIT} Chrome/141.0 Mobile Safari/537.36", "Chrome 141, Android"),
    ],
)
def test_a_known_browser_has_a_short_name(said: str, name: str) -> None:
    assert browser_name(f"Mozilla/5.0 {said}") == name


@pytest.mark.parametrize("said", ["curl/8.5.0", "", "<img src=x onerror=alert(1)>"])
def test_any_other_program_has_the_name_in_its_user_agent(said: str) -> None:
    assert browser_name(said) == said


@given(st.text())
def test_the_name_for_any_user_agent_has_at_most_its_length_or_40_characters(
    user_agent: str,
) -> None:
    assert len(browser_name(user_agent)) <= max(len(user_agent), 40)
