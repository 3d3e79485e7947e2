"""Each chat belongs to an account. The operator may name the account, and its instance is bound
once."""

from pathlib import Path

import pytest

from nekro_core.chat import ChatKey
from nekro_core.delivery.accounts import AccountDirectory, read_list, read_names, write_name
from nekro_core.delivery.activity import Broadcast
from nekro_core.delivery.inbound.inbox import Inbox
from nekro_core.store import Store, UniqueConflict
from tests.delivery.fakes import message


async def hear(store: Store, instance: str) -> None:
    """Store a message that a person sent to an account."""
    inbox, chat = Inbox(store, Broadcast()), ChatKey.parse(f"{instance}-private_lin")
    await inbox.accept(inbox.stamp(message(chat)))


def listed(data: Path) -> dict[str, str]:
    return {each.account: each.instance for each in read_list(data) if each.adapter != "fake"}


async def test_an_account_keeps_its_name_once_it_has_chats(store: Store, tmp_path: Path) -> None:
    write_name(tmp_path, "onebot_v11", "20003", "mei")
    async with AccountDirectory(store, tmp_path) as book:
        assert await book.instance_of("onebot_v11", "20002") == "onebot_v11"
        assert await book.instance_of("onebot_v11", "20003") == "mei"
        assert listed(tmp_path) == {"20002": "onebot_v11", "20003": "mei"}
        write_name(tmp_path, "onebot_v11", "20002", "lin")
        assert await book.look()
        assert await book.instance_of("onebot_v11", "20002") == "lin", (
            "an account without chats can be renamed"
        )
        await hear(store, "lin")
        write_name(tmp_path, "onebot_v11", "20002", "other")
        await book.look()
        assert await book.instance_of("onebot_v11", "20002") == "lin", (
            "an account with chats cannot be renamed"
        )
        book._write_list()
        (problem,) = [each.problem for each in read_list(tmp_path) if each.account == "20002"]
        assert "a name never moves" in problem
    assert store.accounts.own("mei") == {"20002", "20003"}


async def test_another_account_can_take_over_an_instance(store: Store, tmp_path: Path) -> None:
    async with AccountDirectory(store, tmp_path) as book:
        assert await book.instance_of("onebot_v11", "20002") == "onebot_v11"
        await hear(store, "onebot_v11")
        write_name(tmp_path, "onebot_v11", "20009", "onebot_v11")
        await book.look()
        account = store.accounts.of("onebot_v11")
        assert account is not None
        assert account.account == "20009"
        assert await book.instance_of("onebot_v11", "20009") == "onebot_v11"
        assert store.accounts.own("onebot_v11") == {"20009"}
        assert await book.instance_of("onebot_v11", "20002") == "onebot_v11.20002", (
            "the former account gets a new instance"
        )


async def test_an_invalid_or_taken_name_of_an_account_is_refused(
    store: Store, tmp_path: Path
) -> None:
    await store.accounts.bind("web", "web")
    with pytest.raises(UniqueConflict, match="belongs to web"):
        await store.accounts.assign("onebot_v11", "20002", "web")
    path = tmp_path / "accounts.toml"
    for text in ('onebot_v11 = "mei"', "[onebot_v11]\n20002 = 7", "no toml ["):
        path.write_text(text)
        with pytest.raises(ValueError, match=r"."):
            read_names(path)
    path.write_text('[onebot_v11]\n20002 = "mei"\n20003 = "mei"\n')
    with pytest.raises(ValueError, match="more than one account"):
        read_names(path)
    async with AccountDirectory(store, tmp_path) as book:
        assert await book.instance_of("onebot_v11", "20002") == "onebot_v11", (
            "no name of the invalid file may be used"
        )


def test_writing_a_name_keeps_the_other_lines_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "accounts.toml"
    path.write_text('# ours\n[telegram]\n7 = "tele" # the old one\n')
    write_name(tmp_path, "telegram", "8", "tele")
    write_name(tmp_path, "onebot_v11", "20002", "mei")
    assert read_names(path) == {("telegram", "8"): "tele", ("onebot_v11", "20002"): "mei"}
    assert path.read_text().startswith("# ours\n")
