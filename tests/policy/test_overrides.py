"""There are overrides for the bot, an account, a chat and a person. The most specific one is
used."""

from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nekro_core.chat import ChatKey
from nekro_core.policy import (
    ChatOverrides,
    ChatState,
    InvalidOverride,
    PolicyFile,
    PolicyOverrides,
    Quota,
)
from nekro_core.system.documents import FileDocuments

GROUP = ChatKey.parse("onebot_v11-group_30003")
TOPIC = ChatKey.parse("onebot_v11-group_30003#7")
OTHER = ChatKey.parse("mei-group_30003")

BOOK = """
[bot]
persona = "bot"
person_quota = { turns = 20, tokens = 5 }
ignore = ["a"]
commands = { reset = "user", quota = "off" }

[accounts.onebot_v11]
persona = "account"
ignore = ["b"]

[chats."onebot_v11-group_30003"]
state = "observe"
person_quota = { turns = 3 }
commands = { reset = "advanced" }

[chats."onebot_v11-group_30003#7"]
state = "on"

[people."onebot_v11:1"]
quota = { turns = 1, money = 0.5 }
[people."mei:1"]
quota = { turns = 2 }
[people."mei:2"]
ignored = true
"""


def test_the_tables_for_a_chat_are_merged() -> None:
    book = PolicyOverrides.parse(BOOK)
    group, topic, other = map(book.of, (GROUP, TOPIC, OTHER))
    assert (group.state, topic.state, other.state) == (ChatState.OBSERVE, ChatState.ON, None)
    assert (group.persona, topic.persona, other.persona) == ("account", "account", "bot")
    states = [book.state(each) for each in (GROUP, TOPIC, OTHER)]
    assert states == [ChatState.OBSERVE, ChatState.ON, ChatState.ON]
    assert group.person_quota == Quota(turns=3, tokens=5)
    assert group.ignore == {"a", "b"}
    assert other.ignore == {"a"}
    assert group.commands == {"reset": "advanced", "quota": "off"}
    assert book.person("onebot_v11", "mei", "1").quota == Quota(turns=2, money=0.5)
    assert book.person("onebot_v11", "onebot_v11", "1").quota == Quota(turns=1, money=0.5)
    assert book.person("onebot_v11", "mei", "2").ignored
    assert not book.person("onebot_v11", "onebot_v11", "2").ignored


def test_an_entry_for_an_account_does_not_end_a_ban_on_the_platform() -> None:
    book = PolicyOverrides.parse(
        """
[people."onebot_v11:3"]
ignored = true
quota = { turns = 1 }
[people."mei:3"]
ignored = false
quota = { turns = 9 }
"""
    )
    there = book.person("onebot_v11", "mei", "3")
    assert there.ignored
    assert there.quota == Quota(turns=9)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[bot]\nstate = 'asleep'", "bot.state"),
        ("[chats.nowhere]\nstate = 'on'", "no chat key"),
        ("[people.10001]\nignored = true", "expected adapter:id"),
        ("[bot]\nquota = 3", "bot.quota"),
        ("[bot]\nchat_quota = { turns = -1 }", "bot.chat_quota.turns"),
        ("[bot]\ncommands = { reset = 'nobody' }", "bot.commands.reset"),
        ("[bot", "Expected"),
    ],
)
def test_a_wrong_value_is_named_in_the_error(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        PolicyOverrides.parse(text)


async def test_writing_a_value_keeps_the_other_lines_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "conduct.toml"
    path.write_text('# ours\n[bot]\npersona = "cat"  # for now\n')
    heard: list[str] = []
    file = PolicyFile(FileDocuments(tmp_path))
    await file.look()
    file.listen(lambda: heard.append(file.of(GROUP).persona or ""))
    await file.put(("chats", str(GROUP)), "persona", 'say "miau"\nand purr')
    await file.put(("chats", str(GROUP)), "chat_quota", {"turns": 3})
    assert file.of(GROUP).persona == 'say "miau"\nand purr'
    assert file.of(GROUP).chat_quota == Quota(turns=3)
    assert heard == ['say "miau"\nand purr'] * 2
    text = path.read_text()
    assert text.startswith('# ours\n[bot]\npersona = "cat"  # for now\n')
    assert path.stat().st_mode & 0o077 == 0
    another = PolicyFile(FileDocuments(tmp_path))
    assert await another.look()
    assert another.book == file.book, "the file must contain the same overrides"
    with pytest.raises(InvalidOverride, match="persona"):
        await file.put(("bot",), "persona", "x" * 30_000)
    assert path.read_text() == text, "an invalid value must not be written"
    assert await file.forget(("chats", str(GROUP)))
    assert not await file.forget(("chats", str(GROUP)))
    assert file.of(GROUP).persona == "cat"
    path.unlink()
    assert await file.look()
    assert file.book == PolicyOverrides()


async def test_a_file_that_cannot_be_read_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "conduct.toml"
    path.write_text('[bot]\npersona = "cat"\n')
    file = PolicyFile(FileDocuments(tmp_path))
    await file.look()
    path.write_text("[bot]\npersona = ")
    assert not await file.look()
    assert file.of(GROUP).persona == "cat"
    with pytest.raises(InvalidOverride, match="cannot be read"):
        await file.put(("bot",), "persona", "dog")
    assert path.read_text() == "[bot]\npersona = ", (
        "a file that the operator broke must not be overwritten"
    )
    path.write_bytes(b"\xff\xfe")
    assert not await file.look()


async def test_two_changes_at_the_same_time_are_both_kept(tmp_path: Path) -> None:
    """This happens, for example, if a page of the console and a command in a chat change the
    overrides."""
    documents = FileDocuments(tmp_path)
    files = [PolicyFile(documents) for _ in range(4)]

    async def change(file: PolicyFile, number: int) -> None:
        await file.put(("chats", f"web-private_{number}"), "persona", f"number {number}")

    async with anyio.create_task_group() as tasks:
        for number, file in enumerate(files):
            tasks.start_soon(change, file, number)
    await files[0].look()
    assert len(files[0].book.chats) == 4


async def test_an_earlier_version_of_the_overrides_can_be_read_and_written_back(
    tmp_path: Path,
) -> None:
    documents = FileDocuments(tmp_path)
    file = PolicyFile(documents)
    await file.put(("bot",), "persona", "cat")
    await file.put(("bot",), "persona", "dog")
    now, before = await documents.revisions("conduct.toml")
    assert "dog" in now.text
    await documents.write("conduct.toml", before.text, expected=now.revision)
    await file.look()
    assert file.of(GROUP).persona == "cat"


async def test_earlier_versions_that_name_an_erased_person_are_deleted(tmp_path: Path) -> None:
    documents = FileDocuments(tmp_path)
    file = PolicyFile(documents)
    await file.put(("people", "fake:10001"), "quota", {"turns": 3})
    await file.put(("bot",), "persona", "cat")
    await file.forget(("people", "fake:10001"))
    assert await file.forget_earlier(["fake:10002"]) == 0
    assert await file.forget_earlier(["fake:10001"]) == 2
    kept = [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    assert not [text for text in kept if "10001" in text]
    assert file.of(GROUP).persona == "cat"


limits = st.none() | st.integers(0, 9)
quotas = st.builds(Quota, turns=limits, tokens=limits, money=limits)
conducts = st.builds(
    ChatOverrides,
    state=st.none() | st.sampled_from(ChatState),
    persona=st.none() | st.sampled_from(["cat", "dog"]),
    chat_quota=quotas,
    commands=st.dictionaries(st.sampled_from("ab"), st.sampled_from(["user", "off"])),
    ignore=st.frozensets(st.sampled_from("xyz")),
)


@given(conducts, conducts, conducts)
def test_merging_overrides_is_associative(
    one: ChatOverrides, two: ChatOverrides, three: ChatOverrides
) -> None:
    assert one.over(two).over(three) == one.over(two.over(three))
    assert one.over(ChatOverrides()) == one == ChatOverrides().over(one)
