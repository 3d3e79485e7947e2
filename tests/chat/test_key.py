"""Each chat has one spelling of its key, and parsing this spelling returns the same key."""

import re
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nekro_core.chat import MAX_KEY_LENGTH, ChatKey, ChatKeyError, ChatKind

INSTANCES = st.from_regex(r"[A-Za-z0-9_.]{1,24}", fullmatch=True)
NATIVE = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=16)
KEYS = st.builds(ChatKey, INSTANCES, st.sampled_from(ChatKind), NATIVE, st.none() | NATIVE)


@given(KEYS)
def test_parsing_the_text_of_a_key_returns_the_key(key: ChatKey) -> None:
    assert ChatKey.parse(str(key)) == key


@given(KEYS, KEYS)
def test_no_two_chats_share_a_key_text_or_a_folder_name(one: ChatKey, other: ChatKey) -> None:
    assert (str(one) == str(other)) == (one == other)
    assert (one.file_name == other.file_name) == (one == other)


def test_no_native_id_produces_the_folder_name_of_another_chat() -> None:
    theirs = ChatKey("web", ChatKind.GROUP, "Team")
    name = theirs.file_name.removeprefix("web-group_")
    assert name != "Team"
    assert ChatKey("web", ChatKind.GROUP, name).file_name != theirs.file_name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("web-private_lin", "web-private_lin"),
        ("onebot_v11.20002-group_3#7", "onebot_v11.20002-group_3%237"),
        ("web-group_Team", "web-group_team~9a1f2e2a9141e733"),
        ("web-group_~a", "web-group_~a~e969f88ec7bd38f2"),
        ("web-group_群", "web-group_%e7%be%a4~b09d539f28df074a"),
        ("matrix-channel_!a:b", "matrix-channel_%21a%3ab~59b626076a6bcebb"),
        ("web-group_" + "x" * 110, "web-group_" + "x" * 110),
        ("web-group_" + "x" * 111, "web-group_" + "x" * 93 + "~618ff08871f8dc5d"),
    ],
)
def test_the_folder_name_of_a_chat_never_changes_between_versions(text: str, name: str) -> None:
    assert ChatKey.parse(text).file_name == name


@pytest.mark.parametrize("native", ["x" * 245, "群" * 245])
def test_a_key_has_at_most_255_characters(native: str) -> None:
    key = ChatKey("web", ChatKind.GROUP, native)
    assert len(str(key)) == MAX_KEY_LENGTH == 255
    with pytest.raises(ChatKeyError, match="key of 256 characters: at most 255"):
        ChatKey("web", ChatKind.GROUP, native + "x")


def test_sorted_keys_are_grouped_by_account() -> None:
    texts = ["a-group_1", "a-group_2", "a-private_1", "b-group_1"]
    keys = [ChatKey.parse(text) for text in texts]
    assert sorted([keys[2], keys[0], keys[3], keys[1]]) == keys


@given(KEYS)
def test_the_text_of_a_key_has_no_white_space(key: ChatKey) -> None:
    assert not any(character.isspace() for character in str(key))
    assert len(str(key)) <= MAX_KEY_LENGTH


@given(KEYS)
def test_a_folder_name_is_portable(key: ChatKey) -> None:
    name = key.file_name
    assert len(name) <= 120
    assert name.isascii()
    assert not set(name) & set('/\\:*?"<>| ')
    assert name not in {".", ".."}
    assert name == name.lower()


@given(st.text(max_size=60))
def test_a_text_that_is_not_a_key_raises_chat_key_error(text: str) -> None:
    with suppress(ChatKeyError):
        assert str(ChatKey.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("onebot_v11-group_30003", ChatKey("onebot_v11", ChatKind.GROUP, "30003")),
        ("onebot_v11.20002-private_1", ChatKey("onebot_v11.20002", ChatKind.PRIVATE, "1")),
        ("web-private_lin", ChatKey("web", ChatKind.PRIVATE, "lin")),
        ("web-group_群-一_二", ChatKey("web", ChatKind.GROUP, "群-一_二")),
        ("matrix-channel_!a:b", ChatKey("matrix", ChatKind.CHANNEL, "!a:b")),
        ("matrix-channel_%23room:b", ChatKey("matrix", ChatKind.CHANNEL, "#room:b")),
        ("telegram-group_-100#7", ChatKey("telegram", ChatKind.GROUP, "-100", "7")),
        ("web-group_two%20words", ChatKey("web", ChatKind.GROUP, "two words")),
    ],
)
def test_a_key_has_this_text_form(text: str, key: ChatKey) -> None:
    assert ChatKey.parse(text) == key
    assert str(key) == text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no chat key"),
        ("web", "no chat key"),
        ("web-group", "no chat key"),
        ("web-room_1", "kind 'room'"),
        ("-group_1", "instance ''"),
        ("we b-group_1", "instance 'we b'"),
        ("web-group_", "native id is empty"),
        ("web-group_1#", "thread is empty"),
        ("web-group_%2", "'%' must be followed"),
        ("web-group_%2f", "'%' must be followed"),
        ("web-group_%2F", "canonical form"),
        ("web-group_a b", "canonical form"),
        ("web-group_%FF", "UTF-8"),
        ("web-group_\ud800", "no valid Unicode"),
        ("web-group_" + "x" * 300, "at most 255"),
    ],
)
def test_the_error_says_what_is_wrong_with_a_text(text: str, says: str) -> None:
    with pytest.raises(ChatKeyError, match=says):
        ChatKey.parse(text)


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        (("", ChatKind.GROUP, "1"), "instance '': expected letters, digits, '_' and '.', at least"),
        (("a\n", ChatKind.GROUP, "1"), r"instance 'a\\n': expected letters"),
        (("a", "group", "1"), "kind 'group': expected one of group, private, channel"),
        (("a", ChatKind.GROUP, ""), "^native id is empty"),
        (("a", ChatKind.GROUP, "1", ""), "^thread is empty"),
        (("a", ChatKind.GROUP, "\ud800"), "^native id .* is no valid Unicode text"),
        (("a", ChatKind.GROUP, "1", "\ud800"), "^thread .* is no valid Unicode text"),
    ],
)
def test_the_error_says_which_part_of_a_key_is_wrong(parts: tuple[Any, ...], says: str) -> None:
    with pytest.raises(ChatKeyError, match=says):
        ChatKey(*parts)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "web",
            (
                "'web' is no chat key: expected '<instance>-<kind>_<id>', "
                "for example 'onebot_v11-group_30003'"
            ),
        ),
        ("web_group-1", "'web_group-1' is no chat key: "),
        ("web-room_1", "'web-room_1': kind 'room', expected one of group, private, channel"),
        ("web-group_a b", "'web-group_a b' is not in canonical form: write 'web-group_a%20b'"),
        (
            "web-group_a#b#c",
            "'web-group_a#b#c' is not in canonical form: write 'web-group_a#b%23c'",
        ),
        ("web-group_%2", "'%2': '%' must be followed by two upper-case hex digits"),
        ("web-group_%FF", "'%FF' does not unescape to UTF-8"),
    ],
)
def test_the_error_says_what_to_write_instead(text: str, says: str) -> None:
    with pytest.raises(ChatKeyError, match=re.escape(says)):
        ChatKey.parse(text)
