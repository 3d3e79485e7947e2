"""Decides in which chats a note may be read, and about which people nothing may be remembered.

A note may be read in the chat in which it was said, and in the chats that an operator has linked
with this chat. Members of chats and the model cannot change this. A thread counts as a separate
chat.
"""

import hashlib
import hmac
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache

import anyio

from nekro_core.chat import ChatKey, ChatKind
from nekro_core.store import MAX_LINKED, ChangeTopic, MemoryProgress, Store
from nekro_core.system.errors import NekroError

_NOTHING = MemoryProgress()
_WORD = re.compile(r"[^\s,;:()\[\]{}<>\"'`!?=，、。；：！？（）【】「」《》]+")
_MOST_WORDS = 200
"""Number of words of a text that are compared with the ids of people. A note has at most 500
characters, and a digest takes 2 microseconds."""


class LinkRefused(NekroError):
    """Chats cannot be linked. The text says why."""


class MemoryScope:
    """Keeps the links between chats and the people about whom nothing may be remembered. For each
    chat, it also keeps the record up to which a model has drawn notes out of the conversation.
    ``secret`` is called when a digest is made; ``wall`` returns seconds since 1970. Call `load`
    before all other methods.

    All of this is in memory, so that reading it never waits. If several processes share the
    database, changes of other processes are read when the database tells of them."""

    def __init__(
        self, store: Store, *, secret: Callable[[], str], wall: Callable[[], float]
    ) -> None:
        self._store = store
        self._secret = cache(secret)
        self._wall = wall
        self._chats: dict[ChatKey, MemoryProgress] = {}
        self._off: set[str] = set()
        self._begun = 0
        self._was_erased: Callable[[str, str, float], bool] = lambda *_: False
        self._one = anyio.Lock()
        """Held while rows are read or written, and until memory agrees with them. Otherwise a row
        that was read before a change could replace the changed one in memory."""
        listen = store.changes.listen
        listen(ChangeTopic.MEMORY_CHATS, self._read_chats)
        listen(ChangeTopic.MEMORY_OFF, self._read_off)
        listen(ChangeTopic.ERASED, self._read_chats)

    async def load(self) -> None:
        """Read all rows. Raises `StoreError`."""
        # Notes are drawn only from messages after the first start of a version that has notes.
        self._begun = await self._store.memory_chats.begin(self._store.messages.last_seq)
        await self._read_chats("")
        await self._read_off("")

    async def _read_chats(self, name: str) -> None:
        """Read the row of a chat again; for an empty name, the rows of all chats."""
        chats = self._store.memory_chats
        async with self._one:
            if not name:
                self._chats = await chats.all()
            elif (found := await chats.get(chat_key := ChatKey.parse(name))) is not None:
                self._chats[chat_key] = found
            else:
                self._chats.pop(chat_key, None)

    async def _read_off(self, _: str) -> None:
        async with self._one:
            self._off = await self._store.memory_chats.off()

    def progress(self, chat_key: ChatKey) -> MemoryProgress:
        """Return the link of a chat, and the record up to which its notes were drawn."""
        return self._chats.get(chat_key, _NOTHING)

    def drawn_through(self, chat_key: ChatKey) -> int:
        """Return the number of the record up to which notes were drawn. Records from before the
        first start with notes count as drawn."""
        return max(self.progress(chat_key).drawn_through, self._begun)

    async def drawn(self, chat_key: ChatKey, through: int) -> None:
        """Store that notes were drawn out of the records up to this one."""
        async with self._one:
            await self._store.memory_chats.set_drawn(chat_key, through)
            known = self.progress(chat_key)
            through = max(through, known.drawn_through)
            self._chats[chat_key] = replace(known, drawn_through=through)

    def readable(self, chat_key: ChatKey) -> frozenset[ChatKey]:
        """Return the chats whose notes may be read in this chat: itself and the linked ones."""
        link = self.progress(chat_key).link
        if not link:
            return frozenset((chat_key,))
        return frozenset({chat_key, *self.linked(link)})

    def linked(self, link: str) -> list[ChatKey]:
        """Return the chats with this link."""
        return sorted(key for key, each in self._chats.items() if each.link == link)

    def links(self) -> dict[str, list[ChatKey]]:
        """Return all links with their chats."""
        names = sorted({each.link for each in self._chats.values() if each.link})
        return {name: self.linked(name) for name in names}

    async def link(self, chats: Sequence[ChatKey], name: str) -> dict[ChatKey, str]:
        """Give these chats the link ``name``. All chats with the same link share their notes. An
        empty name removes the links of these chats. Returns the previous link of each chat. Raises
        `LinkRefused` and `StoreError`."""
        async with self._one:
            before = {key: self.progress(key).link for key in dict.fromkeys(chats)}
            if name and len({*self.linked(name), *before}) > MAX_LINKED:
                raise LinkRefused(f"{name!r} would have more than {MAX_LINKED} chats")
            for key in before:
                await self._store.memory_chats.set_link(key, name)
                self._chats[key] = replace(self.progress(key), link=name)
            return before

    def know_erased(self, was_erased: Callable[[str, str, float], bool]) -> None:
        """Set the function that says whether a person of an adapter was erased at or after a time,
        in seconds since 1970."""
        self._was_erased = was_erased

    def was_erased(self, chat_key: ChatKey, people: Sequence[str], text: str, at: float) -> bool:
        """Return True if one of these people of the chat's platform was erased at or after ``at``
        (seconds since 1970), if the text contains the id of such a person, or if the chat is such a
        person's private chat."""
        adapter = self._store.accounts.adapter_of(chat_key.instance)
        ids = [*people, *_words(text)]
        if chat_key.kind is ChatKind.PRIVATE:
            ids.append(chat_key.native_id)
        return any(each and self._was_erased(adapter, each, at) for each in ids)

    def names_off(self, chat_key: ChatKey, text: str) -> bool:
        """Return True if a text contains the id of a person about whom nothing may be
        remembered."""
        return bool(self._off) and any(self.is_off(chat_key, each) for each in _words(text))

    def is_off(self, chat_key: ChatKey, user_id: str) -> bool:
        """Return True if nothing may be remembered about a person of the chat's platform."""
        return bool(self._off) and bool(user_id) and self.digest(chat_key, user_id) in self._off

    async def set_off(self, chat_key: ChatKey, user_id: str, *, off: bool) -> None:
        """Set whether nothing may be remembered about a person of the chat's platform."""
        digest = self.digest(chat_key, user_id)
        async with self._one:
            await self._store.memory_chats.set_off(digest, off=off, now=self._wall())
            if off:
                self._off.add(digest)
            else:
                self._off.discard(digest)

    def forget_chat(self, chat_key: ChatKey) -> None:
        """Forget a chat whose row was deleted."""
        self._chats.pop(chat_key, None)

    def digest(self, chat_key: ChatKey, user_id: str) -> str:
        """Return a digest of a person on the platform of a chat."""
        return self.digest_of(self._store.accounts.adapter_of(chat_key.instance), user_id)

    def digest_of(self, adapter: str, user_id: str) -> str:
        """Return a digest of a person on the platform of an adapter."""
        text = f"{adapter}:{user_id}".encode(errors="replace")
        return hmac.new(self._secret().encode(), text, hashlib.sha256).hexdigest()


def _words(text: str) -> Iterator[str]:
    """Yield the words of a text that may be ids of people: the first `_MOST_WORDS` of them, each
    once, and without the mark of a mention."""
    found = dict.fromkeys(each.strip("@#.") for each in _WORD.findall(text))
    yield from [each for each in found if each][:_MOST_WORDS]
