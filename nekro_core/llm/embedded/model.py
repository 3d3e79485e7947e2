"""Runs the embedded chat model in a child process. It needs no key and no network."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

import anyio
from loguru import logger
from pydantic import SecretStr

from nekro_core.llm.embedded.fetch import ensure_weights
from nekro_core.llm.embedded.prompt_cache import PromptCache
from nekro_core.llm.embedded.server import SLOTS, ModelServer
from nekro_core.llm.embedded.settings import EmbeddedSettings
from nekro_core.llm.embedded.weights import DownloadProgress, WeightsError
from nekro_core.llm.http_model import HttpChatModel
from nekro_core.llm.model import (
    ChatRequest,
    Delta,
    ModelNotReady,
    ModelProfile,
    ModelUnreachable,
    Price,
    PriceSource,
)
from nekro_core.llm.settings import LLMSettings

_NAME = "embedded"
_MOMENT_S = 0.5
_PIECE_MESSAGES = 8
"""Number of messages that are read before the progress is told: about 130 tokens, 1 to 3 s."""
_FIRST_TOKEN_S = 300.0
"""Maximum wait for the first token, in seconds. Reading a prompt that is not cached takes 30 s on
two slow cores, and the request may have to wait for other requests."""


class EmbeddedPhase(StrEnum):
    """What the embedded model is doing."""

    IDLE = "idle"
    """It is not loaded. The next request loads it."""
    DOWNLOADING = "downloading"
    LOADING = "loading"
    READING = "reading"
    """It reads its instructions, and answers with short prompts meanwhile."""
    READY = "ready"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedState:
    """The state of the embedded model.

    Attributes:
        phase: What it is doing.
        file: The name of its file; empty while it is not known.
        reason: Why it failed, or what is downloaded.
        done: Downloaded bytes, or pieces of the instructions that it has read.
        total: All bytes of the download, or all pieces; 0 if there is neither.
    """

    phase: EmbeddedPhase = EmbeddedPhase.IDLE
    file: str = ""
    reason: str = ""
    done: int = 0
    total: int = 0

    @property
    def share(self) -> float:
        """The share of the download or of the reading that is done, from 0 to 1."""
        return min(1.0, self.done / self.total) if self.total else 0.0


class EmbeddedModel:
    """A `ChatModel` whose weights are in ``folder``. Its process starts with the first request.

    The process caches prompts in a few slots. The request's ``cache_key`` decides which slot is
    used. Requests for the same slot wait for each other in the process. If the process has died,
    the next request starts a new process. If the process dies during a request, the request is
    repeated once, unless part of the reply has arrived. ``report`` is called with the progress of
    downloads.
    """

    def __init__(
        self,
        settings: EmbeddedSettings,
        folder: Path,
        *,
        report: Callable[[DownloadProgress], None] = lambda _: None,
    ) -> None:
        self._settings = settings
        self._folder = folder
        self._report = report
        self._server = ModelServer(settings, folder / "readings")
        self._readings = PromptCache(folder / "readings", self._server.socket, self._server.key)
        self._lock = anyio.Lock()
        self._state = EmbeddedState()
        self._file: Path | None = None
        self._profile = ModelProfile(
            name=_NAME,
            grammar=True,
            prefers_examples=True,
            context_tokens=settings.context_tokens,
            price=Price(source=PriceSource.FREE),
            provider="llama.cpp",
        )
        self._clients = [self._client(slot) for slot in range(SLOTS)]
        self._slots: dict[str, int] = {}
        self._asked = 0
        self._reading = anyio.CancelScope()
        self._beginnings = frozenset[str]()
        self._unread = frozenset[str]()

    def _client(self, slot: int) -> HttpChatModel:
        settings = LLMSettings(
            base_url=f"http://{_NAME}/v1",
            model=_NAME,
            api_key=SecretStr(self._server.key),
            first_token_s=_FIRST_TOKEN_S,
            total_s=2 * _FIRST_TOKEN_S,
            retries=0,
            extra_body={"id_slot": slot},
        )
        return HttpChatModel(settings, profile=self._profile, socket=self._server.socket)

    @property
    def profile(self) -> ModelProfile:
        """Return the profile: the model accepts a grammar and wants the short prompt; it accepts no
        pictures and no sound. While `prepare` runs, ``unread`` has the cache keys of the prompts
        whose beginnings the model has not read yet."""
        return replace(self._profile, unread=self._unread)

    @property
    def state(self) -> EmbeddedState:
        """Return what the model is doing, for example whether it is ready."""
        working = (EmbeddedPhase.READING, EmbeddedPhase.READY)
        if self._state.phase in working and not self._server.running:
            return replace(self._state, phase=EmbeddedPhase.IDLE)
        return self._state

    @property
    def process_id(self) -> int | None:
        """Return the id of the model's process; None while it does not run."""
        return self._server.process_id

    async def start(self) -> None:
        """Find or download the weights, and load them. Raises `ModelUnreachable`."""
        async with self._lock:
            if self._file is None:
                try:
                    self._file = await ensure_weights(self._settings, self._folder, self._tell)
                except WeightsError as error:
                    self._state = EmbeddedState(phase=EmbeddedPhase.FAILED, reason=str(error))
                    raise ModelUnreachable(str(error)) from error
        if not self._server.running:
            self._state = EmbeddedState(phase=EmbeddedPhase.LOADING, file=self._file.name)
        try:
            await self._server.ensure(self._file)
        except ModelUnreachable as error:
            self._state = EmbeddedState(
                phase=EmbeddedPhase.FAILED, file=self._file.name, reason=str(error)
            )
            raise
        if self._state.phase is not EmbeddedPhase.READING:
            self._state = EmbeddedState(phase=EmbeddedPhase.READY, file=self._file.name)

    def _tell(self, progress: DownloadProgress) -> None:
        self._state = EmbeddedState(
            phase=EmbeddedPhase.DOWNLOADING,
            reason=progress.what,
            done=progress.done,
            total=progress.total,
        )
        self._report(progress)

    async def prepare(self, likely: Sequence[ChatRequest] = ()) -> None:
        """Load the weights. Then put each prompt in ``likely`` into the cache of a slot: load the
        cache from a file that an earlier start saved, or let the model read the prompt.

        A request that arrives meanwhile interrupts the reading. When no request is being answered,
        the reading continues where it stopped. `profile` has the cache keys of the prompts that are
        not read yet, so that callers can send short prompts in their place.
        """
        self._beginnings = self._unread = frozenset(each.cache_key for each in likely)
        try:
            await self.start()
            await self._read_all(likely)
        finally:
            self._beginnings = self._unread = frozenset()
            if self._state.phase is EmbeddedPhase.READING:
                self._state = replace(self._state, phase=EmbeddedPhase.READY, done=0, total=0)

    async def _read_all(self, likely: Sequence[ChatRequest]) -> None:
        assert self._file is not None
        left = [each for each in likely if not await self._load(each)]
        pieces = {each.cache_key: _pieces(each) for each in left}
        done, total = 0, sum(map(len, pieces.values()))
        for request in left:
            self._give_up_other_slots()
            for piece in pieces[request.cache_key]:
                self._state = EmbeddedState(
                    phase=EmbeddedPhase.READING, file=self._file.name, done=done, total=total
                )
                while not await self._read(piece):  # noqa: ASYNC110 - no event says "idle"
                    await anyio.sleep(_MOMENT_S)
                done += 1
            await self._readings.save(self._slot(request.cache_key), self._name_of(request))
            self._unread -= {request.cache_key}
            logger.info("the embedded model has read {:.0%} of its instructions", done / total)
        # A short prompt that arrived meanwhile may have taken the slot of a prompt in ``likely``.
        self._give_up_other_slots()
        for request in likely:
            if request.cache_key not in self._slots:
                await self._load(request)

    def _give_up_other_slots(self) -> None:
        """Free the slots of all prompts that are not in ``likely`` of `prepare`: the short ones."""
        kept = self._beginnings
        self._slots = {key: slot for key, slot in self._slots.items() if key in kept}

    async def _load(self, request: ChatRequest) -> bool:
        """Load the cache of a prompt that an earlier start saved. False if there is none."""
        if not await self._readings.has(name := self._name_of(request)):
            return False
        if not await self._readings.load(self._slot(request.cache_key), name):
            return False
        self._unread -= {request.cache_key}
        return True

    def _name_of(self, request: ChatRequest) -> str:
        assert self._file is not None
        return self._readings.name_of(self._file, self._settings.context_tokens, request)

    async def _read(self, request: ChatRequest) -> bool:
        """Let the model read the beginning of a prompt into the prompt's slot. Returns False if a
        request interrupted the reading."""
        if self._asked:
            return False
        with anyio.CancelScope() as self._reading:
            async for _ in self._deltas(replace(request, max_tokens=1)):
                pass
        return not self._reading.cancelled_caught

    @asynccontextmanager
    async def stream(self, request: ChatRequest) -> AsyncIterator[AsyncIterator[Delta]]:
        """Send a request; see `ChatModel.stream`. While the weights are downloaded, which may take
        half an hour, it raises `ModelNotReady`."""
        if self._state.phase is EmbeddedPhase.DOWNLOADING:
            raise ModelNotReady(
                f"the embedded model is still being downloaded ({self._state.share:.0%}): wait, or "
                "choose another model on the page Models"
            )
        self._asked += 1
        self._reading.cancel()
        deltas = self._deltas(request)
        try:
            yield deltas
        finally:
            self._asked -= 1
            with anyio.move_on_after(2, shield=True):
                await deltas.aclose()

    async def _deltas(self, request: ChatRequest) -> AsyncGenerator[Delta, None]:
        client = self._clients[self._slot(request.cache_key)]
        for tries_left in (1, 0):
            await self.start()
            begun = False
            try:
                async with client.stream(request) as deltas:
                    async for delta in deltas:
                        begun = True
                        yield delta
            except ModelUnreachable:
                if begun or not tries_left or not await self._server.died():
                    raise
            else:
                return

    def _slot(self, cache_key: str) -> int:
        """Return the slot of this key. A new key gets a free slot. If none is free, it gets the
        slot that was not used for the longest time."""
        slot = self._slots.pop(cache_key, None)
        if slot is None:
            unused = set(range(SLOTS)) - set(self._slots.values())
            slot = min(unused) if unused else self._take_slot()
        self._slots[cache_key] = slot
        return slot

    def _take_slot(self) -> int:
        """Take the slot that was not used for the longest time."""
        key = next(iter(self._slots))
        if key in self._beginnings:
            self._unread |= {key}
        return self._slots.pop(key)

    async def aclose(self) -> None:
        """Close the connections and end the process."""
        for client in self._clients:
            await client.aclose()
        await self._server.aclose()


def _pieces(request: ChatRequest) -> list[ChatRequest]:
    """Return the request with more and more of its messages. Each ends with a message of a person,
    as the whole does, so the model can read them one after another."""
    ends = range(_PIECE_MESSAGES, len(request.messages), _PIECE_MESSAGES)
    return [*(replace(request, messages=request.messages[:end]) for end in ends), request]
