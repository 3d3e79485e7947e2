"""Fetches URLs for plugins under the network rules of a chat.

Code in the chat's box may pass the name of a host to a tool. A fetch from this host is allowed only
if the rules of the chat's boxes allow the host. Any other host was chosen by the plugin, and must
be on the public internet. Fetches with a plugin's own HTTP client are not checked.
"""

import html
import unicodedata
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from urllib.parse import unquote, urlsplit

import httpx
import msgspec

from nekro_core.chat import (
    ChatKey,
    File,
    Forward,
    ForwardedMessage,
    Image,
    Media,
    Segment,
    Video,
    Voice,
)
from nekro_core.delivery.media.fetch import Fetcher
from nekro_core.delivery.media.fetch_policy import ChatFetchPolicy, public_internet
from nekro_core.delivery.media.store import MediaStore
from nekro_core.delivery.media_contract import Expected
from nekro_core.plugins.authoring.call import CallFiles, running_call, texts_of
from nekro_core.sandbox.egress.rules import EgressRules

Spend = Callable[[int], None]
"""Adds a number of bytes to a chat's traffic. Raises `TrafficBudgetExceeded`."""


@dataclass(frozen=True, slots=True)
class _Asked:
    chat: ChatKey
    call: CallFiles


_asked: ContextVar[_Asked | None] = ContextVar("nekro_fetching_for", default=None)


@contextmanager
def fetch_scope(chat: ChatKey, call: CallFiles) -> Iterator[None]:
    """Treat fetches in the block as fetches of this call, even after its tool has ended."""
    token = _asked.set(_Asked(chat, call))
    try:
        yield
    finally:
        _asked.reset(token)


def _who_asks() -> Iterator[_Asked]:
    """Yield the call of the tool that runs now, then the call that `fetch_scope` set."""
    if ctx := running_call():
        yield _Asked(ctx.asked_in or ctx.chat, ctx.files)
    if asked := _asked.get():
        yield asked


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatNetwork:
    """Holds the network rules of chats and the counters of their traffic. ``refused`` is called
    with the chat, the destination and the reason of each refused fetch."""

    rules: Callable[[ChatKey], EgressRules]
    spend: Callable[[ChatKey], Spend]
    refused: Callable[[ChatKey, str, str], None] = lambda _chat, _destination, _reason: None

    def reach(self, url: str, chat: ChatKey | None = None) -> ChatFetchPolicy:
        """Get the rules for a fetch that begins at this URL. The rules belong to the chat of the
        call that runs now or, if no call runs, to ``chat``. If there is no chat either, the whole
        public internet is allowed."""
        asks = [*_who_asks()]
        home = asks[0].chat if asks else chat
        if home is None:
            return public_internet()
        said = _said_by_code(asks)
        named = _is_said(_hosts_of(url), said)
        return ChatFetchPolicy(
            self.rules(home),
            told=lambda host: named or _is_said([host], said),
            spend=self.spend(home),
            refused=partial(self.refused, home),
        )


def host_named_by_code(url: str) -> bool:
    """Return True if code in the chat's box passed the host of this URL to the current call."""
    return _is_said(_hosts_of(url), _said_by_code(_who_asks()))


def _said_by_code(asks: Iterable[_Asked]) -> list[str]:
    return [_folded(text) for each in asks if each.call.by_code for text in texts_of(each.call)]


def _is_said(names: Sequence[str], said: Sequence[str]) -> bool:
    return any(_folded(name) in text for name in names for text in said)


class _Fold(dict[int, str]):
    """Caches the folded form of each character. Texts are folded one character at a time because
    `unicodedata.normalize` takes quadratic time on many combining marks in a row: 100,000 marks
    blocked all chats for 16 s."""

    def __missing__(self, code: int) -> str:
        apart = unicodedata.normalize("NFKD", chr(code)).casefold()
        kept = (each for each in unicodedata.normalize("NFKD", apart) if not _is_left_out(each))
        found = "".join(kept).replace("\u3002", ".")
        if len(self) < _MOST_FOLDED:
            self[code] = found
        return found


def _is_left_out(character: str) -> bool:
    """Return True for a combining mark or an invisible character. A program may ignore such a
    character in the name of a host."""
    return unicodedata.category(character) in ("Mn", "Me", "Cf")


_MOST_FOLDED = 20_000
_FOLD = _Fold()
_WRITTEN_OUT = 3
"""Maximum number of layers of escaping (``%2E``, ``&#46;``) that are decoded."""


def _folded(text: str) -> str:
    """Bring a text to one common form, so that all spellings that a program may read as the same
    host become equal."""
    for _ in range(_WRITTEN_OUT):
        before = text
        text = unquote(text) if "%" in text else text
        text = html.unescape(text) if "&" in text else text
        if text == before:
            break
    if text.isascii():  # Fast path: most texts are ASCII, and some have many megabytes.
        return text.lower()
    return text.translate(_FOLD)


def _hosts_of(url: str) -> list[str]:
    """List the spellings of a URL's host: as written in the URL, decoded to Unicode, and encoded
    for the request."""
    try:
        read = httpx.URL(url)
        written = urlsplit(url).netloc.rpartition("@")[2]
        return [name for name in (written, read.host, read.raw_host.decode()) if name]
    except (httpx.InvalidURL, ValueError):
        # Every text contains "", so the host counts as named by the code, and the stricter rules
        # apply. The fetch of such a URL fails anyway.
        return [""]


class PluginMediaKeeper:
    """Stores media for plugins in the bot's media store, under the chat's network rules."""

    def __init__(self, store: MediaStore, network: ChatNetwork) -> None:
        self._store = store
        self._network = network

    async def keep_bytes(
        self, chat_key: ChatKey, data: bytes, *, name: str = "", expect: Expected = ""
    ) -> Media:
        """See `MediaKeeper`."""
        return await self._store.keep_bytes(chat_key, data, name=name, expect=expect)

    async def keep_url(
        self, chat_key: ChatKey, url: str, *, name: str = "", expect: Expected = ""
    ) -> Media:
        """See `MediaKeeper`."""
        reach = self._network.reach(url, chat_key)
        return await self._store.keep_url(chat_key, url, name=name, expect=expect, reach=reach)


class PluginFetcher:
    """Fetches URLs for plugins under the chat's network rules. Implements `UrlFetcher`."""

    def __init__(self, fetcher: Fetcher, network: ChatNetwork) -> None:
        self._fetcher = fetcher
        self._network = network

    async def fetch(self, url: str) -> bytes:
        """Get the bytes behind a URL. Raises `NotFetched`."""
        key = next((asked.chat for asked in _who_asks()), None)
        return await self._fetcher.fetch(url, reach=self._network.reach(url), key=key)


async def with_fetched(
    segments: Sequence[Segment], keep: Callable[[Media], Awaitable[Media]]
) -> tuple[Segment, ...]:
    """Replace each medium that has only a URL with what ``keep`` returns for it."""
    return tuple([await _fetched(segment, keep) for segment in segments])


async def _fetched(segment: Segment, keep: Callable[[Media], Awaitable[Media]]) -> Segment:
    if isinstance(segment, Forward):
        messages: list[ForwardedMessage] = []
        for each in segment.messages:
            inner = await with_fetched(each.segments, keep)
            messages.append(msgspec.structs.replace(each, segments=inner))
        return Forward(tuple(messages))
    if not isinstance(segment, Image | Voice | Video | File):
        return segment
    media = segment.media
    if media.path or media.problem or not media.url.lower().startswith(("http://", "https://")):
        return segment
    return msgspec.structs.replace(segment, media=await keep(media))
