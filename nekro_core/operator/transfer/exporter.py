"""Writes what the bot knows as lines of an export: settings without secrets, personas, policies,
accounts, chats, people, notes, and messages if wanted."""

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
from pydantic_core import to_jsonable_python

from nekro_core import __version__
from nekro_core.chat import Record, every_segment
from nekro_core.operator.settings import SettingsBook
from nekro_core.operator.transfer.lines import (
    VERSION,
    ExportedAccount,
    ExportedChat,
    ExportedMessage,
    ExportedNote,
    ExportedPerson,
    ExportedPersona,
    ExportedPolicy,
    ExportedSetting,
    ExportHead,
    ExportLine,
)
from nekro_core.policy import PolicyFile
from nekro_core.policy.personas import PersonaLibrary
from nekro_core.store import Store
from nekro_core.system.setting_info import SettingInfo

OF_THIS_MACHINE = frozenset(
    {"host", "port", "data_dir", "database_url", "documents", "environment"}
)
"""Settings that belong to a machine and not to the bot. They are neither exported nor imported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where the data of an export is, and where an import puts it."""

    store: Store
    settings: SettingsBook
    personas: PersonaLibrary
    policies: PolicyFile
    wall: Callable[[], float]


class Exporter:
    """Writes the lines of an export."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    async def lines(self) -> AsyncIterator[ExportLine]:
        """Yield all lines except those of messages."""
        yield ExportHead(version=VERSION, made=self._sources.wall(), by=f"nekro-core {__version__}")
        for info in await self._sources.settings.infos():
            if info.is_set and may_leave(info):
                yield ExportedSetting(version=VERSION, name=info.name, value=info.value)
        for persona in self._sources.personas.all():
            newest = persona.newest
            yield ExportedPersona(
                version=VERSION, name=persona.name, text=newest.text, saved=newest.saved_at
            )
        for table, field, value in policy_fields(self._sources.policies):
            yield ExportedPolicy(version=VERSION, table=table, field=field, value=value)
        store = self._sources.store
        for account in store.accounts.all():
            yield ExportedAccount(
                version=VERSION,
                adapter=account.adapter,
                account=account.account,
                instance=account.instance,
            )
        for key, name in await store.transfer.chats():
            yield ExportedChat(version=VERSION, chat_key=str(key), name=name)
        for person in await store.transfer.people():
            yield ExportedPerson(
                version=VERSION,
                instance=person.instance,
                user_id=person.user_id,
                name=person.name,
            )
        for key, _ in sorted(await store.notes.chats()):
            for note in sorted(
                await store.notes.of_chats([key], ended=True), key=lambda each: each.note_id
            ):
                yield ExportedNote(
                    version=VERSION,
                    chat_key=str(note.chat_key),
                    text=note.text,
                    about_id=note.about_id,
                    about_name=note.about_name,
                    said_by=note.said_by,
                    kind=note.kind.value,
                    since=note.since,
                    until=note.until,
                )

    async def messages(self, after: int, limit: int) -> tuple[list[ExportLine], int]:
        """Return at most ``limit`` lines of messages, beginning after the message with the number
        ``after``. Also return the number of the last of these messages, with which the next call
        goes on; 0 if there are no more messages."""
        rows = await self._sources.store.transfer.messages(after, limit)
        lines: list[ExportLine] = [message_line(record, unique_id) for record, unique_id in rows]
        return lines, rows[-1][0].seq if len(rows) == limit else 0


def may_leave(info: SettingInfo) -> bool:
    """Return whether a setting may be in an export."""
    return not info.secret and info.name not in OF_THIS_MACHINE


def policy_fields(policies: PolicyFile) -> Iterator[tuple[tuple[str, ...], str, Any]]:
    """Return each field that ``conduct.toml`` sets, with its table."""
    for section, content in policies.book.model_dump(exclude_defaults=True).items():
        tables = (
            {(section,): content}
            if section == "bot"
            else {(section, str(name)): fields for name, fields in content.items()}
        )
        for table, fields in tables.items():
            for field, value in fields.items():
                yield table, field, _plain(value)


def message_line(record: Record, unique_id: str) -> ExportedMessage:
    """Write a record as a line. Paths of media are left out: the files are not in the export."""
    return ExportedMessage(
        version=VERSION,
        chat_key=str(record.chat_key),
        time=record.time,
        author=record.author.value,
        segments=without_places(msgspec.to_builtins(record.segments)),
        id=unique_id,
        message_id=record.message_id,
        user_id=record.sender.user_id,
        user_name=record.sender.name,
        role=record.sender.role.value if record.sender.user_id else "",
        to_bot=record.to_bot,
        recalled=record.recalled,
    )


def without_places(value: Any) -> Any:
    """Remove ``path`` and ``url`` from all media, at any depth. A path would name a file of another
    machine, or of another chat."""
    if isinstance(value, list | tuple):
        return [without_places(each) for each in value]
    if not isinstance(value, dict):
        return value
    cleaned = {name: without_places(each) for name, each in value.items()}
    media = cleaned.get("media")
    if isinstance(media, dict):
        cleaned["media"] = {k: v for k, v in media.items() if k not in ("path", "url")}
    return cleaned


def people_in(record: Record) -> list[str]:
    """Return the ids of all people whom a record names."""
    found = [record.sender.user_id]
    for segment in every_segment(record.segments):
        found += [getattr(segment, name, "") for name in _IDS]
        found += [message.sender_id for message in getattr(segment, "messages", ())]
    return [each for each in found if each]


_IDS = ("user_id", "sender_id", "actor_id", "target_id")


def _plain(value: Any) -> Any:
    """Turn a value of Python into one of JSON. Sets are sorted, so that two exports of the same bot
    are equal. Lists keep their order: the first of the bot's names, for example, is the main
    one."""
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items() if each is not None}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, set | frozenset):
        return sorted(_plain(each) for each in value)
    return to_jsonable_python(value)
