"""Imports the lines of an export.

An import overwrites nothing that this bot has already, except a persona by a newer version. So the
same file may be imported again: after an import that was interrupted, the second one adds the rest.
"""

import json

from nekro_core.chat import ChatKey, ChatKeyError
from nekro_core.memory.notes.book import NoteBook
from nekro_core.memory.notes.json_lines import import_lines
from nekro_core.memory.scope import MemoryScope
from nekro_core.operator.transfer.exporter import (
    OF_THIS_MACHINE,
    Sources,
    may_leave,
    policy_fields,
)
from nekro_core.operator.transfer.history import HistoryImporter
from nekro_core.operator.transfer.lines import (
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
    LineRefused,
    read_line,
)
from nekro_core.operator.transfer.report import TransferReport
from nekro_core.policy.personas import PersonaError, UnknownPersona
from nekro_core.store import StoreError
from nekro_core.store.limits import MAX_ID
from nekro_core.store.transfer_rows import KnownPerson
from nekro_core.system.errors import NekroError

_MAX_NAME = 500
_BOT = "import"
"""An imported persona gets a new version. This name says there who saved the version."""


class LineDiffers(NekroError):
    """A line would overwrite something that this bot has. The text says what."""


class Importer:
    """Imports lines, one after another.

    Args:
        sources: Where the data goes.
        notes: The notes of the memory.
        scope: Knows who was erased.
        history: Imports messages; None while a bot uses the store.
        write: Whether anything is stored; if not, the lines are only checked.
        made: When the export was made, if an earlier part of the file has said it.
    """

    def __init__(
        self,
        sources: Sources,
        notes: NoteBook,
        scope: MemoryScope,
        *,
        history: HistoryImporter | None,
        write: bool,
        made: float = 0.0,
    ) -> None:
        self._to = sources
        self._notes = notes
        self._scope = scope
        self._history = history
        self._write = write
        self.report = TransferReport(made=made)

    async def take(self, number: int, text: str) -> None:
        """Import a line; ``number`` is its number in the file. Raises `StoreError` if nothing more
        can be stored; the lines before this one stay stored."""
        try:
            line = read_line(text)
        except LineRefused as error:
            self.report.of("unreadable").refused += 1
            self.report.tell(number, str(error))
            return
        counts = self.report.of(json.loads(text)["type"])
        try:
            added = await self._add(line, number)
        except LineDiffers as why:
            counts.differ += 1
            self.report.tell(number, str(why))
        except StoreError:
            raise
        except NekroError as error:
            counts.refused += 1
            self.report.tell(number, str(error))
        else:
            counts.new += added
            counts.existed += not added

    async def _add(self, line: ExportLine, number: int) -> bool:
        """Store a line. Returns False if this bot has its content already. Raises `LineDiffers` and
        `NekroError`."""
        match line:
            case ExportHead():
                self.report.made = line.made
                return False
            case ExportedSetting():
                return await self._setting(line)
            case ExportedPersona():
                return await self._persona(line)
            case ExportedPolicy():
                return await self._policy(line)
            case ExportedAccount():
                return await self._account(line)
            case ExportedChat():
                return await self._chat(line)
            case ExportedPerson():
                return await self._person(line)
            case ExportedNote():
                return await self._note(line, number)
            case ExportedMessage():
                if self._history is None:
                    raise LineRefused(
                        "messages can be imported only while no bot runs: stop it first"
                    )
                return await self._history.take(line, write=self._write)

    async def _setting(self, line: ExportedSetting) -> bool:
        infos = {each.name: each for each in await self._to.settings.infos()}
        info = infos.get(line.name)
        if line.name in OF_THIS_MACHINE or (info is not None and not may_leave(info)):
            raise LineRefused(f"setting {line.name[:80]!r}: it is not one that can be imported")
        if info is not None and info.value == line.value:
            return False
        if info is not None and info.is_set:
            raise LineDiffers(f"{line.name} is set to another value here, which stays")
        if self._write:
            await self._to.settings.set({line.name: line.value})
        return True

    async def _persona(self, line: ExportedPersona) -> bool:
        library = self._to.personas
        try:
            here = library.get(line.name)
        except UnknownPersona:
            here = None
        if here is not None:
            if here.newest.text == line.text and not here.removed_at:
                return False
            if max(here.newest.saved_at, here.removed_at) >= line.saved:
                raise LineDiffers(f"the persona {here.name!r} was changed here later, and stays")
        if self._write:
            try:
                await library.save(line.name, line.text, by=_BOT)
            except PersonaError as error:
                raise LineRefused(str(error)) from None
        return True

    async def _policy(self, line: ExportedPolicy) -> bool:
        table, field = line.table, line.field
        if (len(table), table[:1]) not in _TABLES:
            raise LineRefused(f"table {list(table)}: expected one of {_TABLE_NAMES}")
        place, _, user_id = table[-1].partition(":")
        if table[0] == "people" and self._was_erased(ChatKey.parse(f"{place}-private_0"), user_id):
            raise LineRefused("it is about a person who was erased since then")
        await self._to.policies.look()
        here = {(at, name): value for at, name, value in policy_fields(self._to.policies)}
        if (table, field) in here:
            if here[table, field] == line.value:
                return False
            raise LineDiffers(f"{field} of {'.'.join(table)} has another value here, which stays")
        if self._write:
            await self._to.policies.put(table, field, line.value)
        return True

    async def _account(self, line: ExportedAccount) -> bool:
        accounts = self._to.store.accounts
        known = accounts.instances(line.adapter).get(line.account)
        if known == line.instance:
            return False
        if known is not None or accounts.of(line.instance) is not None:
            raise LineDiffers(f"account {line.account} or instance {line.instance} is in use here")
        _instance(line.instance)
        if self._write:
            await accounts.bind(line.adapter, line.account, name=line.instance)
        return True

    async def _chat(self, line: ExportedChat) -> bool:
        key = _chat_key(line.chat_key)
        if self._scope.was_erased(key, (), "", self.report.made):
            raise LineRefused("it is the private chat of a person who was erased since then")
        transfer, name = self._to.store.transfer, line.name[:_MAX_NAME]
        there = await transfer.has_chat(key)
        if there and (not name or self._to.store.chats.name(key)):
            return False
        if self._write:
            await transfer.add_chat(key, name)
        return True

    async def _person(self, line: ExportedPerson) -> bool:
        if not line.user_id or len(line.user_id) > MAX_ID:
            raise LineRefused(f"user_id: expected 1 to {MAX_ID} characters")
        if self._was_erased(_instance(line.instance), line.user_id):
            raise LineRefused("this person was erased since then")
        transfer = self._to.store.transfer
        if await transfer.person(line.instance, line.user_id) is not None:
            return False
        if self._write:
            person = KnownPerson(
                instance=line.instance, user_id=line.user_id, name=line.name[:_MAX_NAME]
            )
            await transfer.add_person(person, self._to.wall())
        return True

    async def _note(self, line: ExportedNote, number: int) -> bool:
        fields = {
            name: value
            for name in line.__struct_fields__
            if name != "version" and (value := getattr(line, name))
        }
        if not self._write:
            key = _chat_key(line.chat_key)
            known = await self._to.store.notes.of_chats([key], about=[line.about_id], ended=True)
            return all(each.text != line.text for each in known)
        done = await import_lines(
            self._notes, json.dumps(fields, ensure_ascii=False), first_line=number
        )
        if done.refused:
            raise LineRefused(done.refused[0].partition(": ")[2])
        return bool(done.kept)

    def _was_erased(self, key: ChatKey, user_id: str) -> bool:
        return self._scope.was_erased(key, (user_id,), "", self.report.made)


_TABLES = {
    (1, ("bot",)),
    (2, ("accounts",)),
    (2, ("chats",)),
    (2, ("people",)),
}
_TABLE_NAMES = '["bot"], ["accounts", INSTANCE], ["chats", KEY], ["people", "PLATFORM:ID"]'


def _chat_key(text: str) -> ChatKey:
    try:
        return ChatKey.parse(text)
    except ChatKeyError as error:
        raise LineRefused(str(error)) from None


def _instance(name: str) -> ChatKey:
    """Return a key of the instance. Raises `LineRefused` if the name cannot be one."""
    return _chat_key(f"{name}-private_0")
