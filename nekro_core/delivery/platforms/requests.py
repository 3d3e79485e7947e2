"""Stores requests of people to be a friend of the bot's account or to join a group, until an
operator answers them."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec
from loguru import logger

from nekro_core.delivery.adapter import Adapter
from nekro_core.delivery.contact_request import ContactRequest, ContactRequestState
from nekro_core.delivery.errors import CannotDo
from nekro_core.delivery.platforms.contract import SupportsRequests
from nekro_core.system.atomic_files import write_whole

FILE_NAME = "platform_requests.json"
MOST_KEPT = 1000
"""Maximum number of stored requests. If there are more, the oldest requests that are not open are
deleted, and if that is not enough, the oldest open requests. Anybody can send requests, so their
number must be limited."""
TEXT_LENGTH = 500
"""Maximum number of characters that are stored of a request's text."""
ANSWER_S = 20.0
"""Time limit for answering a request on the platform, in seconds."""


class ContactRequests:
    """The requests, stored in ``data/platform_requests.json``.

    Args:
        data_dir: The data folder.
        adapters: The adapters by name. It is read at each answer, so adapters may be added later.
        clock: Returns the time in seconds since 1970.
    """

    def __init__(
        self,
        data_dir: Path,
        adapters: Mapping[str, Adapter],
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._path = data_dir / FILE_NAME
        self._adapters = adapters
        self._clock = clock
        self._writing = anyio.Lock()
        self._known: dict[str, ContactRequest] = {each.request_id: each for each in self._read()}

    async def receive(self, request: ContactRequest) -> None:
        """Store a new request. A request that is known already is dropped.

        Args:
            request: The request.

        Raises:
            OSError: The file cannot be written.
        """
        async with self._writing:
            if request.request_id in self._known:
                return
            text = request.text[:TEXT_LENGTH]
            await self._replace(
                {
                    **self._known,
                    request.request_id: replace(request, text=text),
                }
            )
        logger.info("{}: {} request of {}", request.adapter, request.kind, request.user_id)

    def listed(
        self,
        states: Iterable[ContactRequestState] = (ContactRequestState.OPEN,),
        *,
        before: str = "",
        limit: int = 50,
    ) -> list[ContactRequest]:
        """List requests, newest first.

        Args:
            states: The states to list.
            before: The id of a request; only older requests are listed. Empty to begin with the
                newest.
            limit: The largest number of requests.

        Returns:
            The requests.
        """
        wanted = frozenset(states)
        newest = sorted(self._known.values(), key=_order, reverse=True)
        if (start := self._known.get(before)) is not None:
            newest = [each for each in newest if _order(each) < _order(start)]
        return [each for each in newest if each.state in wanted][:limit]

    async def answer(self, request_id: str, *, approve: bool, reason: str = "") -> ContactRequest:
        """Answer a request on the platform, and store the answer.

        Args:
            request_id: The bot's id of the request.
            approve: Whether it is approved.
            reason: What a refused person reads, if the platform shows it.

        Returns:
            The request with its new state.

        Raises:
            CannotDo: There is no such request, it is answered already, or the platform did not take
                the answer. In the last case the request stays open, with the problem.
            OSError: The file cannot be written. The request stays open, although the platform may
                have taken the answer.
        """
        async with self._writing:
            request = self._known.get(request_id)
            if request is None:
                raise CannotDo(f"there is no request {request_id!r}")
            if request.state is not ContactRequestState.OPEN:
                raise CannotDo(f"this request is {request.state} already")
            problem = await self._tell(request, approve=approve, reason=reason)
            if problem:
                changed = replace(request, problem=problem)
            else:
                state = ContactRequestState.APPROVED if approve else ContactRequestState.REFUSED
                changed = replace(
                    request, state=state, answered_at=self._clock(), reason=reason, problem=""
                )
            await self._replace({**self._known, request_id: changed})
        if problem:
            raise CannotDo(problem)
        return changed

    async def dismiss(self, request_id: str) -> ContactRequest:
        """Remove a request from the list without answering it, for example if it was answered in
        the platform's own program.

        Args:
            request_id: The bot's id of the request.

        Returns:
            The request with its new state.

        Raises:
            CannotDo: There is no such request, or it is not open.
            OSError: The file cannot be written.
        """
        return await self._move(
            request_id, ContactRequestState.OPEN, ContactRequestState.DISMISSED, self._clock()
        )

    async def reopen(self, request_id: str) -> ContactRequest:
        """Undo `dismiss`.

        Args:
            request_id: The bot's id of the request.

        Returns:
            The open request.

        Raises:
            CannotDo: There is no such request, or it is not dismissed.
            OSError: The file cannot be written.
        """
        return await self._move(
            request_id, ContactRequestState.DISMISSED, ContactRequestState.OPEN, None
        )

    def platforms(self) -> dict[str, bool]:
        """Say for each adapter whether it passes such requests to the bot.

        Returns:
            The adapters' names in alphabetical order, each with True if the adapter passes requests
            to the bot.
        """
        return {
            name: isinstance(adapter, SupportsRequests)
            for name, adapter in sorted(self._adapters.items())
        }

    async def forget(self, people: Iterable[tuple[str, str]]) -> int:
        """Delete the requests of people.

        Args:
            people: For each person, the adapter's name and the platform's id.

        Returns:
            How many requests were deleted.

        Raises:
            OSError: The file cannot be written.
        """
        gone = frozenset(people)
        async with self._writing:
            kept = {
                key: each
                for key, each in self._known.items()
                if (each.adapter, each.user_id) not in gone
            }
            count = len(self._known) - len(kept)
            if count:
                await self._replace(kept)
        return count

    async def _move(
        self,
        request_id: str,
        old: ContactRequestState,
        new: ContactRequestState,
        at: float | None,
    ) -> ContactRequest:
        async with self._writing:
            request = self._known.get(request_id)
            if request is None:
                raise CannotDo(f"there is no request {request_id!r}")
            if request.state is not old:
                raise CannotDo(f"this request is {request.state}, expected {old}")
            changed = replace(request, state=new, answered_at=at)
            await self._replace({**self._known, request_id: changed})
        return changed

    async def _tell(self, request: ContactRequest, *, approve: bool, reason: str) -> str:
        """Return why the answer did not reach the platform; empty if it did."""
        adapter = self._adapters.get(request.adapter)
        if not isinstance(adapter, SupportsRequests):
            return f"the adapter {request.adapter} cannot answer requests now"
        try:
            with anyio.fail_after(ANSWER_S):
                await adapter.answer_request(request, approve=approve, reason=reason)
        except CannotDo as error:
            return str(error)
        except TimeoutError:
            return f"the platform did not answer within {ANSWER_S:g} s"
        return ""

    async def _replace(self, known: dict[str, ContactRequest]) -> None:
        if len(known) > MOST_KEPT:
            is_open = ContactRequestState.OPEN
            order = sorted(known.values(), key=lambda each: (each.state is is_open, _order(each)))
            known = {each.request_id: each for each in order[len(known) - MOST_KEPT :]}
        data = msgspec.json.encode(list(known.values()))
        await anyio.to_thread.run_sync(write_whole, self._path, data)
        self._known = known

    def _read(self) -> list[ContactRequest]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=list[ContactRequest])
        except FileNotFoundError:
            return []
        except (OSError, msgspec.MsgspecError) as error:
            aside = self._path.with_suffix(".unreadable.json")
            logger.error("{} cannot be read ({}); it is kept as {}", self._path, error, aside)
            self._path.replace(aside)
            return []


def _order(request: ContactRequest) -> tuple[float, str]:
    return request.time, request.request_id
