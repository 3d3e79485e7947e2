"""Erases a person from files of the data folder, outside the database."""

import json
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from nekro_core.agent.erasure.erasure import Eraser
from nekro_core.app.adapters import erase_from_adapters
from nekro_core.chat.redact import SHORTEST, RedactionTarget
from nekro_core.compat.nekro_agent.host import FactsFile, NekroAgentHost
from nekro_core.compat.qdrant.home import EmbeddedVectorStore
from nekro_core.delivery.outbound.announcements import Announcements
from nekro_core.delivery.platforms.requests import ContactRequests
from nekro_core.memory.keeper import MemoryKeeper
from nekro_core.policy import PolicyFile, without_thread
from nekro_core.store import Person, PersonTraces
from nekro_core.system.logs.book import LogBook

_COPIES = ("copies/*", "*-before-upgrade", ".upgrade-*")
"""Copies of the database that were made for upgrades. An upgrade that was interrupted leaves the
last two in the data folder: what the guard kept, and what the trial worked on."""
_TERMINAL_LOG = "chat.log"
"""The log of a bot that ``nekro chat`` started."""


def personal_data(
    data: Path,
    *,
    vectors: EmbeddedVectorStore,
    older: NekroAgentHost,
    logs: LogBook,
    memory: MemoryKeeper,
    requests: ContactRequests,
    announcements: Announcements,
) -> Sequence[Eraser]:
    """Return the erasers for `nekro_core.agent.erasure.erasure.PersonErasure`: those of places that
    only this process has."""
    return (
        partial(_from_vectors, vectors),
        partial(_from_facts, older),
        partial(_from_memory, memory),
        partial(_from_requests, requests),
        partial(_from_announcements, announcements),
        partial(_from_stickers, data / "emoji"),
        partial(_from_copies, data),
        partial(_from_terminal_log, data / _TERMINAL_LOG),
        partial(_from_logs, logs),
        partial(erase_from_adapters, data),
    )


async def _from_vectors(
    vectors: EmbeddedVectorStore, _person: Person, _traces: PersonTraces, forgotten: RedactionTarget
) -> int:
    return await vectors.forget(forgotten)


async def _from_memory(
    memory: MemoryKeeper, person: Person, traces: PersonTraces, _forgotten: RedactionTarget
) -> int:
    """Remove the person's private chats from the memory service's cache, and erase the documents of
    these chats. The notes and summaries are erased with the other rows of the database."""
    return await memory.erase(person, traces.private)


async def _from_facts(
    older: NekroAgentHost, person: Person, traces: PersonTraces, forgotten: RedactionTarget
) -> int:
    """Erase the facts about users and chats that plugins for nekro-agent store in files."""
    chats = {str(chat_key) for chat_key in traces.private}
    of_users = {f"{instance}:{person.user_id}" for instance in person.instances}
    gone = _drop(older.extra_users, of_users) + _drop(older.extra_chats, chats)
    for facts in (older.extra_users, older.extra_chats):
        for key, known in facts.all().items():
            if (after := forgotten.value(known)) != known:
                facts.put(key, after)
                gone += 1
    return gone


def _drop(facts: FactsFile, keys: set[str]) -> int:
    known = keys & facts.all().keys()
    for key in known:
        facts.drop(key)
    return len(known)


async def from_overrides(
    conduct: PolicyFile, person: Person, traces: PersonTraces, _forgotten: RedactionTarget
) -> int:
    """Erase the policy overrides of a person and of their private chats. If the operator has the
    bot ignore the person, this override stays, so that an erasure does not end a ban. All
    processes of a cluster have the same overrides."""
    gone = 0
    for chat_key in {without_thread(each) for each in traces.private}:
        if str(chat_key) in conduct.book.chats:
            gone += await conduct.forget(("chats", str(chat_key)))
    for key in person.ids & conduct.book.people.keys():
        if not conduct.book.people[key].ignored:
            gone += await conduct.forget(("people", key))
    chats = (str(without_thread(each)) for each in traces.private)
    return gone + await conduct.forget_earlier({*person.ids, *chats})


async def _from_requests(
    requests: ContactRequests, person: Person, _traces: PersonTraces, _forgotten: RedactionTarget
) -> int:
    """Erase a person's friend and group requests."""
    return await requests.forget([(person.adapter, person.user_id)])


async def _from_announcements(
    announcements: Announcements,
    _person: Person,
    traces: PersonTraces,
    _forgotten: RedactionTarget,
) -> int:
    """Erase a person's private chats from the operator's announcements."""
    return await announcements.forget(traces.private)


async def _from_stickers(
    folder: Path, _person: Person, traces: PersonTraces, _forgotten: RedactionTarget
) -> int:
    """Erase pictures of a person that a plugin stored as stickers (`nekro_core.compat.maibot`).
    They are found by their hash, because the stickers do not name their authors."""
    index = anyio.Path(folder / "index.json")
    if not await index.exists():
        return 0
    kept: dict[str, Any] = json.loads(await index.read_text("utf-8"))
    theirs = {medium.sha256[:32] for _, medium in traces.media} & kept.keys()
    for number in theirs:
        await anyio.Path(folder / kept.pop(number)["file"]).unlink(missing_ok=True)
    if theirs:
        await index.write_text(json.dumps(kept, ensure_ascii=False), "utf-8")
    return len(theirs)


def delete_copies(data: Path) -> int:
    """Delete all old copies of the database in a data folder, because they contain everybody's
    messages. Return how many there were. Raises `OSError`."""
    copies = [each for pattern in _COPIES for each in data.glob(pattern)]
    for each in copies:
        if each.is_dir() and not each.is_symlink():
            shutil.rmtree(each)
        else:
            each.unlink(missing_ok=True)
    return len(copies)


async def _from_copies(
    data: Path, _person: Person, _traces: PersonTraces, _forgotten: RedactionTarget
) -> int:
    return await anyio.to_thread.run_sync(delete_copies, data)


async def _from_terminal_log(
    path: Path, person: Person, _traces: PersonTraces, _forgotten: RedactionTarget
) -> int:
    log = anyio.Path(path)
    if len(person.user_id) < SHORTEST or not await log.exists():
        return 0
    if person.user_id.encode() not in await log.read_bytes():
        return 0
    # Empty the file and do not replace it, because the running bot has it open.
    async with await log.open("r+b") as file:
        await file.truncate(0)
    return 1


async def _from_logs(
    logs: LogBook, person: Person, traces: PersonTraces, _forgotten: RedactionTarget
) -> int:
    """Remove the lines that contain the person's id or name, or that belong to their private
    chats."""
    texts = {str(key) for key in traces.private}
    texts |= {each for each in (person.user_id, *traces.names) if len(each) >= SHORTEST}
    return await logs.forget(texts)
