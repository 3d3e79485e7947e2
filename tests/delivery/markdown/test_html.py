"""Markdown becomes HTML for a web page, and a hostile model cannot inject markup or scripts."""

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nekro_core.delivery.markdown.html import html_from_markdown


def test_markup_becomes_html() -> None:
    html = html_from_markdown("# T\n**b** [x](https://example.org)\n\n|a|\n|-|\n|1|")
    assert html == (
        "<h1>T</h1><p><strong>b</strong> "
        '<a href="https://example.org" target="_blank" rel="noopener noreferrer nofollow">x</a></p>'
        '<div class="nk-table"><table><thead><tr><th>a</th></tr></thead>'
        "<tbody><tr><td>1</td></tr></tbody></table></div>"
    )


def test_code_is_coloured_and_a_formula_is_drawn() -> None:
    html = html_from_markdown("```python\nreturn '<b>'\n```\n\n$\\frac{a}{b}$")
    assert '<span class="k">return</span>' in html
    assert "&lt;b&gt;" in html
    assert "<mfrac>" in html


def test_for_a_text_without_markup_no_html_is_made() -> None:
    assert html_from_markdown("just words, 2 * 3") == ""


ATTACKS = (
    "**x** <script>alert(1)</script>",
    "**x** <img src=x onerror=alert(1)>",
    "[x](javascript:alert(1)) **y**",
    "[x](data:text/html,<script>alert(1)</script>) `y`",
    '[x](https://a.b/"onmouseover="alert(1)) **y**',
    "![x](https://tracker.example/pixel.png)",
    "$\\text{<img src=x onerror=alert(1)>}$",
    "$\\href{javascript:alert(1)}{x}$",
    '```"><script>alert(1)</script>\nx\n```',
    "<https://a.b/<script>>",
    "|<svg onload=alert(1)>|b|\n|-|-|\n|1|2|",
)


class Tags(HTMLParser):
    """Collects the tags and attributes of HTML."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.addresses += [value or "" for name, value in attrs if name in ("href", "src")]


def harmless(html: str) -> None:
    read = Tags()
    read.feed(html)
    assert not read.tags & {"script", "img", "svg", "iframe", "object", "style", "form", "input"}
    assert not any(name.startswith("on") for name in read.attributes)
    assert all(each.startswith(("https://", "http://", "mailto:")) for each in read.addresses)


@pytest.mark.parametrize("source", ATTACKS)
def test_no_attack_puts_markup_of_its_own_into_the_page(source: str) -> None:
    harmless(html_from_markdown(source))


@given(
    st.lists(
        st.sampled_from(
            [
                "<",
                ">",
                '"',
                "'",
                "script",
                "img src=x onerror=",
                "javascript:",
                "](",
                "[",
                ")",
                "**",
                "`",
                "$",
                "\\text{",
                "}",
                "\n",
                "|",
                "-",
                "https://a.b",
                "&lt;",
                "<!--",
                "x",
            ]
        ),
        max_size=40,
    )
)
def test_no_combination_of_marks_and_tags_puts_markup_of_its_own_into_the_page(
    pieces: list[str],
) -> None:
    harmless(html_from_markdown("**x** " + "".join(pieces)))
