"""Hostile HTML is cleaned in linear time."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nekro_core.chat import sound_html


@pytest.mark.parametrize(
    ("html", "sound"),
    [
        ("<p>Hello<br/>you</p>", "<p>Hello<br/>you</p>"),
        ("1 < 2 <b>and</b> 3 > 2", "1 &lt; 2 <b>and</b> 3 > 2"),
        ("<!DOCTYPE html><?xml version='1.0'?><p>a<!-- <b> -->b</p>", "  <p>ab</p>"),
        ("<!--[if mso]>x<![endif]--><![if !mso]>y<![endif]>", " y "),
        ("a<!-- b", "a"),
        ("<a <a <a href='x'>y</a", "&lt;a &lt;a <a href='x'>y&lt;/a"),
        ("<<!---->a><<!x>b>", "&lt;a>< b>"),
    ],
)
def test_broken_html_is_closed_and_escaped(html: str, sound: str) -> None:
    assert sound_html(html) == sound


@given(st.text(st.sampled_from("<>!-?/a '\"="), max_size=200))
def test_every_tag_ends_before_the_next_tag_begins(html: str) -> None:
    for tag in sound_html(html).split("<")[1:]:
        assert ">" in tag


@pytest.mark.parametrize("piece", ["<a ", "<!--", "<!--x>", "<![x>", "<?", "<a x='", "</a "])
def test_unclosed_tags_are_escaped_in_linear_time(piece: str) -> None:
    """The standard library's parser needs quadratic time for a text that repeats one of these
    pieces."""
    assert not re.search(r"<[a-z/!?]", sound_html(piece * 20_000))
