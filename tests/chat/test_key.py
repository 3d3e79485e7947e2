"""The chat key: one spelling a chat, and it comes back as it went in."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nekro_core.chat import MAX_KEY_LENGTH, ChatKey, ChatKeyError, ChatKind

INSTANCES = st.from_regex(r"[A-Za-z0-9_.]{1,24}", fullmatch=True)
NATIVE = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=16)
KEYS = st.builds(ChatKey, INSTANCES, st.sampled_from(ChatKind), NATIVE, st.none() | NATIVE)


@given(KEYS)
def test_what_is_written_reads_back(key: ChatKey) -> None:
    assert ChatKey.parse(str(key)) == key


@given(KEYS, KEYS)
def test_no_two_chats_share_a_text_or_a_folder(one: ChatKey, other: ChatKey) -> None:
    assert (str(one) == str(other)) == (one == other)
    assert (one.file_name == other.file_name) == (one == other)


def test_nobody_takes_the_folder_of_another_chat_by_its_name() -> None:
    theirs = ChatKey("web", ChatKind.GROUP, "Team")
    name = theirs.file_name.removeprefix("web-group_")
    assert name != "Team"
    assert ChatKey("web", ChatKind.GROUP, name).file_name != theirs.file_name


@given(KEYS)
def test_a_text_form_is_one_visible_word(key: ChatKey) -> None:
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
def test_any_other_text_is_refused_with_words(text: str) -> None:
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
def test_keys_as_they_stand_in_a_log(text: str, key: ChatKey) -> None:
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
def test_what_is_wrong_is_said(text: str, says: str) -> None:
    with pytest.raises(ChatKeyError, match=says):
        ChatKey.parse(text)
