"""Erases from a restored bot the people who were erased after the backup was made.

The erasure has two parts. The first part comes before the restored files are put in place of the
data folder. It erases everything that can be erased without a running bot: rows, media, files of
boxes, vectors. The second part comes at the bot's first start. The bot erases these people once
more, and this time plugins erase what is in their own files.
"""

import shutil
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NoReturn

import anyio.to_thread
import msgspec
from loguru import logger

from nekro_core.agent.erasure.erasure import Eraser, PersonErasure
from nekro_core.agent.erasure.marks import FILE_NAME as MARKS
from nekro_core.agent.erasure.marks import ErasureMarks
from nekro_core.agent.session.sessions import Sessions
from nekro_core.app.erasure import from_overrides, personal_data
from nekro_core.app.settings import Settings
from nekro_core.chat import ChatKey, ChatKind
from nekro_core.chat.redact import RedactionTarget
from nekro_core.compat.nekro_agent.host import NekroAgentHost
from nekro_core.compat.qdrant.home import EmbeddedVectorStore
from nekro_core.delivery.outbound.announcements import FOLDER as ANNOUNCEMENTS
from nekro_core.delivery.outbound.announcements import Announcements
from nekro_core.delivery.platforms.requests import ContactRequests
from nekro_core.memory.keeper import MemoryKeeper
from nekro_core.plugins.host.registry import PluginRegistry
from nekro_core.policy import InvalidOverride, PolicyFile
from nekro_core.store import Person, Store, StoreError
from nekro_core.system.atomic_files import write_whole
from nekro_core.system.documents import FileDocuments
from nekro_core.system.logs.book import LogBook
from nekro_core.system.logs.ring import LogRing
from nekro_core.system.secrets import kept_secret, secret_file

NOTE = "restored.json"
"""The name of the file that says which people the first start must erase."""

_SECRET = "erased"  # noqa: S105 (its name)


class _ErasedPerson(msgspec.Struct, frozen=True):
    adapter: str
    user_id: str
    instances: tuple[str, ...]


class RestoredNote(msgspec.Struct, frozen=True, kw_only=True):
    """The erasures that the first start after a restore must do."""

    made: float
    people: tuple[_ErasedPerson, ...] = ()


def marks_of(data: Path, wall: Callable[[], float]) -> ErasureMarks | None:
    """Return a data folder's marks of erased people; None if it has none."""
    secret = secret_file(data, _SECRET)
    if not (data / MARKS).is_file() or not secret.is_file():
        return None
    return ErasureMarks(data / MARKS, lambda: secret.read_text().strip(), wall)


async def erase_again(
    settings: Settings,
    store: Store,
    data: Path,
    *,
    marked_in: Sequence[Path],
    made: float,
    wall: Callable[[], float],
) -> int:
    """Erase people from an unpacked backup: those whom one of the data folders ``marked_in`` marks
    as erased since ``made``. Write the note for the first start. Return the number of people.
    Raises `StoreError` and `OSError`."""
    found = [marks for folder in marked_in if (marks := marks_of(folder, wall)) is not None]
    people = [
        person
        for person in await _everybody(store)
        if any(marks.was_erased(person.adapter, person.user_id, made) for marks in found)
    ]
    vectors = EmbeddedVectorStore(data / "vectors")
    conduct = PolicyFile(FileDocuments(data))
    await conduct.look()
    memory = MemoryKeeper(
        store, settings.nekro_memory, data=data, secret=partial(kept_secret, data, "memory")
    )
    try:
        async with Announcements(data / ANNOUNCEMENTS, _send_nothing, clock=wall) as announcements:
            erasers = personal_data(
                data,
                vectors=vectors,
                older=_older_host(settings, store, data),
                logs=LogBook(LogRing()),  # A backup has no logs.
                memory=memory,
                requests=ContactRequests(data, {}, clock=wall),
                announcements=announcements,
            )
            erasers = (partial(from_overrides, conduct), *erasers)
            for person in people:
                await _erase(store, data, person, erasers)
    finally:
        memory.knowledge.close()
        await vectors.aclose()
    if people:
        await store.erasing.vacuum()
    await anyio.to_thread.run_sync(_keep_marks, data, marked_in, people, wall)
    note = RestoredNote(
        made=made,
        people=tuple(_ErasedPerson(each.adapter, each.user_id, each.instances) for each in people),
    )
    write_whole(data / NOTE, msgspec.json.encode(note))
    return len(people)


async def _send_nothing(*_: object, **__: object) -> NoReturn:
    raise RuntimeError("nothing is sent while a backup is restored")


async def finish_at_start(
    data: Path, erasure: PersonErasure, sessions: Sessions, plugins: PluginRegistry
) -> None:
    """Erase the people of the note with the plugins' hooks, and delete the note. An erasure that
    fails is logged and left for the next start."""
    path = anyio.Path(data / NOTE)
    if not await path.exists():
        return
    try:
        note = msgspec.json.decode(await path.read_bytes(), type=RestoredNote)
        for each in note.people:
            person = Person(adapter=each.adapter, user_id=each.user_id, instances=each.instances)
            chat = ChatKey(each.instances[0], ChatKind.PRIVATE, each.user_id)
            hooks: Callable[[], Awaitable[tuple[int, list[str]]]] = partial(
                plugins.on_user_erase, plugins.context_for(chat), each.adapter, each.user_id
            )
            await erasure.erase(
                person, stop=sessions.stop, drop=sessions.forget_person, plugins=hooks
            )
    except (OSError, StoreError, msgspec.MsgspecError) as error:
        logger.error("{}: the restored data cannot be cleared of erased people: {}", path, error)
        return
    await path.unlink(missing_ok=True)


async def _everybody(store: Store) -> list[Person]:
    accounts = store.accounts
    people: dict[tuple[str, str], Person] = {}
    for instance, user_id in await store.restored.people():
        adapter = accounts.adapter_of(instance)
        instances = {*accounts.instances(adapter).values(), instance}
        known = people.get((adapter, user_id))
        if known is not None:
            instances |= {*known.instances}
        people[adapter, user_id] = Person(
            adapter=adapter, user_id=user_id, instances=tuple(sorted(instances))
        )
    return [*people.values()]


async def _erase(store: Store, data: Path, person: Person, erasers: Sequence[Eraser]) -> None:
    traces = await store.erasing.look(person)
    forgotten = RedactionTarget(
        person.ids | {str(key) for key in traces.private}, traces.message_ids
    )
    if traces.timers:
        await store.timers.delete(*(timer_id for _, timer_id in traces.timers))
    await store.erasing.erase(person, traces)
    for chat_key, medium in dict.fromkeys(traces.media):
        file = data / "uploads" / chat_key.file_name / Path(medium.path).name
        if not await store.erasing.still_used(chat_key, medium) and file.is_file():
            file.unlink()
    for chat_key in traces.private:
        _remove(data / "uploads" / chat_key.file_name)
    for chat_key in {*traces.private, *traces.worked, *(chat for chat, _ in traces.media)}:
        _remove(data / "boxes" / chat_key.file_name)
        _remove(data / "plugin_files" / chat_key.file_name)
    for eraser in erasers:
        try:
            await eraser(person, traces, forgotten)
        except (OSError, StoreError, InvalidOverride) as error:
            logger.warning("erasing a person again: this is left to do by hand: {}", error)


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)


def _keep_marks(
    data: Path, marked_in: Sequence[Path], people: Sequence[Person], wall: Callable[[], float]
) -> None:
    """Put the marks of erased people from the folders ``marked_in`` into the restored folder. A
    mark does not show whose it is, and is valid only with the secret with which it was made. So if
    a folder has another secret than the restored one, its marks cannot be copied. Then new marks
    are made for the erased people who were found in the backup."""
    secret = secret_file(data, _SECRET)
    if not secret.is_file():
        source = next((each for each in marked_in if secret_file(each, _SECRET).is_file()), None)
        if source is None:
            return
        write_whole(secret, secret_file(source, _SECRET).read_bytes())
        (data / MARKS).unlink(missing_ok=True)  # The file cannot be read without its secret.
    own = ErasureMarks(data / MARKS, lambda: secret.read_text().strip(), wall)
    for folder in marked_in:
        other = marks_of(folder, wall)
        if other is None:
            continue
        if secret_file(folder, _SECRET).read_bytes().strip() == secret.read_bytes().strip():
            own.merge(other)
        else:
            for person in people:
                own.add(person.adapter, person.user_id)


def _older_host(settings: Settings, store: Store, data: Path) -> NekroAgentHost:
    return NekroAgentHost(
        store=store,
        llm=settings.nekro_llm,
        agent=settings.nekro_agent,
        trigger=settings.nekro_trigger,
        command=settings.commands,
        adapters={},
        data_dir=data,
    )
