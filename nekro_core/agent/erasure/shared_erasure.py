"""Lets all processes that share a database erase a person from what only they have.

Each process has its own turns, log lines and files. The process that erases a person first
asks all other processes to stop the turns of the person's chats and to erase the person from these
places. It waits for their answers, and then erases the person from the database. So no turn of
another process writes rows about the person afterwards. A process that does not answer is reported,
because its log and files may still name the person.
"""

import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import anyio
import msgspec
from loguru import logger

from nekro_core.store import ChangeTopic, Person, Store
from nekro_core.system.errors import NekroError

_ANSWER_S = 20.0
"""Maximum number of seconds to wait for the other processes. Ending a turn takes up to 10 s."""
_MOST_WAITING = 100
"""Maximum number of erasures that wait in a process. A process refuses more, and is then reported
as one that has not answered."""
_MOST_LEFT, _LEFT_CHARS = 10, 300
"""A process reports at most this many things that are left to do by hand, each with at most this
many characters. The database carries messages of at most 8,000 bytes between processes."""

EraseHere = Callable[[Person], Awaitable[Sequence[str]]]
"""Erases a person from what only this process has. Returns what the operator must erase by hand."""


class _Call(msgspec.Struct, frozen=True, tag="erase"):
    number: str
    process: str
    adapter: str
    user_id: str
    instances: tuple[str, ...]


class _Answer(msgspec.Struct, frozen=True, tag="erased"):
    number: str
    process: str
    left: tuple[str, ...]


@dataclass(slots=True)
class _Answers:
    """The answers to one call, by process."""

    found: dict[str, tuple[str, ...]] = field(default_factory=dict)
    came: anyio.Event = field(default_factory=anyio.Event)


class SharedErasure:
    """Asks other processes to erase people, and does what they ask. `live` must run."""

    def __init__(self, store: Store, here: EraseHere, *, answer_s: float = _ANSWER_S) -> None:
        self._changes = store.changes
        self._here = here
        self._answer_s = answer_s
        self._process = uuid.uuid4().hex
        self._asked: dict[str, _Answers] = {}
        self._send, self._calls = anyio.create_memory_object_stream[_Call](_MOST_WAITING)
        store.changes.listen(ChangeTopic.ERASE, self._hear)

    async def erase_elsewhere(self, person: Person) -> list[str]:
        """Have all other processes erase a person, and wait for their answers. Returns what is left
        to do by hand. Raises `StoreError`."""
        others = await self._changes.processes() - 1
        if others < 1:
            return []
        number = uuid.uuid4().hex
        answers = self._asked[number] = _Answers()
        try:
            await self._tell(
                _Call(number, self._process, person.adapter, person.user_id, person.instances)
            )
            with anyio.move_on_after(self._answer_s):
                while len(answers.found) < others:
                    await answers.came.wait()
                    answers.came = anyio.Event()
        finally:
            del self._asked[number]
        left = [each for found in answers.found.values() for each in found]
        if (missing := others - len(answers.found)) > 0:
            left.append(
                f"{missing} of {others} other processes have not answered within "
                f"{self._answer_s:g} s: their logs and files may still name the person. Erase the "
                "person again when they work"
            )
        return left

    async def live(self) -> None:
        """Erase the people that other processes name, until cancelled."""
        with self._send, self._calls:
            async for call in self._calls:
                person = Person(
                    adapter=call.adapter, user_id=call.user_id, instances=call.instances
                )
                try:
                    left = await self._here(person)
                    short = tuple(each[:_LEFT_CHARS] for each in left[:_MOST_LEFT])
                    await self._tell(_Answer(call.number, self._process, short))
                except (OSError, NekroError) as error:
                    logger.error("erasing a person for another process failed: {}", error)
                except Exception:  # noqa: BLE001 (this must not end the work for later people)
                    logger.exception("erasing a person for another process failed")

    async def _tell(self, message: _Call | _Answer) -> None:
        await self._changes.announce(ChangeTopic.ERASE, msgspec.json.encode(message).decode())

    async def _hear(self, text: str) -> None:
        if not text:
            return  # After a connect there is nothing to read: calls are not stored.
        try:
            message = msgspec.json.decode(text, type=_Call | _Answer)
        except msgspec.MsgspecError as error:
            logger.error("a call to erase a person cannot be read: {}", error)
            return
        if message.process == self._process:
            return
        match message:
            case _Call():
                try:
                    self._send.send_nowait(message)
                except (anyio.WouldBlock, anyio.ClosedResourceError, anyio.BrokenResourceError):
                    logger.error("a call to erase a person is refused: too many wait")
            case _Answer() if message.number in self._asked:
                answers = self._asked[message.number]
                answers.found[message.process] = message.left
                answers.came.set()
            case _:
                pass
