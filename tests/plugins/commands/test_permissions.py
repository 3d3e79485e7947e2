"""The settings, the platform's roles and the chat's rules decide who may run a command."""

from pathlib import Path

import pytest

from nekro_core.chat import ChatKey, Role, Sender
from nekro_core.policy import PolicyFile
from nekro_core.policy.permissions import CommandAccess, CommandPermission, CommandSettings
from nekro_core.system.documents import FileDocuments

GROUP = ChatKey.parse("onebot_v11-group_30003")
PRIVATE = ChatKey.parse("onebot_v11-private_10003")
OTHER = ChatKey.parse("onebot_v11-group_40004")
SETTINGS = CommandSettings(
    super_users=frozenset({"onebot_v11:10001"}), advanced_users=frozenset({"onebot_v11:10002"})
)


async def policy(folder: Path) -> PolicyFile:
    file = PolicyFile(FileDocuments(folder))
    await file.look()
    return file


@pytest.mark.parametrize(
    ("chat", "user", "role", "roles", "stands"),
    [
        (GROUP, "10001", Role.MEMBER, True, "super_user"),
        (GROUP, "10002", Role.OWNER, True, "advanced"),
        (GROUP, "10003", Role.OWNER, True, "chat_admin"),
        (GROUP, "10003", Role.ADMIN, True, "chat_admin"),
        (GROUP, "10003", Role.MEMBER, True, "user"),
        (GROUP, "10003", Role.OWNER, False, "user"),
        (PRIVATE, "10003", Role.MEMBER, False, "chat_admin"),
        (GROUP, "10005", Role.MEMBER, True, "advanced"),
        (OTHER, "10005", Role.MEMBER, True, "user"),
        (GROUP, "", Role.OWNER, True, "public"),
    ],
)
async def test_settings_roles_and_chat_decide_a_persons_permission(
    tmp_path: Path, chat: ChatKey, user: str, role: Role, roles: bool, stands: str
) -> None:
    path = tmp_path / "conduct.toml"
    path.write_text(f'[chats."{GROUP}"]\noperators = ["10005"]\n')
    access = CommandAccess(SETTINGS.model_copy(update={"roles": roles}), await policy(tmp_path))
    sender = Sender(user, "Root, the operator", role)
    assert access.standing(chat, "onebot_v11", sender) == stands


async def test_a_chats_rule_overrides_the_settings(tmp_path: Path) -> None:
    path = tmp_path / "conduct.toml"
    path.write_text(
        '[accounts.onebot_v11]\ncommands = { tune = "user" }\n'
        f'[chats."{GROUP}".commands]\n"tune-up" = "super_user"\nlend = "off"\ngone = "user"\n'
    )
    settings = CommandSettings(permissions={"lend": "advanced"}, off=frozenset({"gone"}))
    access, own = CommandAccess(settings, await policy(tmp_path)), CommandPermission.PUBLIC
    assert access.rule(GROUP, {"tune_up"}, own) is CommandPermission.SUPER_USER
    assert access.rule(GROUP, {"tune"}, own) is CommandPermission.USER
    assert access.rule(GROUP, {"lend"}, own) is None
    assert access.rule(OTHER, {"lend"}, own) is CommandPermission.ADVANCED
    assert access.rule(GROUP, {"gone"}, own) is CommandPermission.USER
    assert access.rule(OTHER, {"gone"}, own) is None
    assert access.rule(OTHER, {"other"}, own) is own
