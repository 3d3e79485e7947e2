"""A message that shows a value and is edited when the value changes: see `AgentCtx.show`."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, Protocol

import anyio

from nekro_core.chat import ChatKey, DeliveryState, Receipt, Segment, Text, plain_text
from nekro_core.plugins.authoring.services import MessageEditor

_PREVIEW = 1000
"""Of an unfinished text, only this many characters at its end are shown, so that the text fits into
one message on every platform."""
_FAILED = " ⚠"
"""This sign is added to a text that stays unfinished. It is not a word, because the language of the
text is not known."""

Render = Callable[[Any], str | Segment | Sequence[Segment]]
Send = Callable[[Sequence[Segment]], Awaitable[tuple[Receipt, ...]]]


class ValueSnapshot(Protocol):
    """A value at one moment, or the error that its computation raised. The snapshot is final if
    none of the value's inputs is still being computed."""

    @property
    def value(self) -> Any:
        """The value; None if there is nothing to show yet."""

    @property
    def error(self) -> Exception | None:
        """The error that the computation raised; None if it raised none."""

    @property
    def final(self) -> bool:
        """Whether no further snapshot follows."""


class FollowableValue(Protocol):
    """A value that can be shown: a cell or a computed value (`nekro_core.api.reactive`)."""

    def follow(self) -> AsyncGenerator[ValueSnapshot]:
        """Yield the present value and the value after each change, until it is final."""


class LiveMessage:
    """Shows one value in one chat."""

    def __init__(
        self, chat: ChatKey, send: Send, editor: MessageEditor | None, render: Render | None
    ) -> None:
        self._chat = chat
        self._send = send
        self._editor = editor
        self._render = render
        self._every_s = editor.edit_every_s(chat) if editor is not None else None
        self._message_id = ""
        self._receipts: tuple[Receipt, ...] = ()
        self._shown: Sequence[Segment] = ()

    async def follow(self, value: FollowableValue) -> tuple[Receipt, ...]:
        """See `AgentCtx.show`."""
        last: ValueSnapshot | None = None
        async with aclosing(value.follow()) as glimpses:
            async for last in glimpses:
                if self._every_s is not None and not last.final and last.error is None:
                    await self._show_for_now(last.value)
        assert last is not None, "a value is seen at least once"
        if last.error is not None:
            await self._mark_failed()
            raise last.error
        return await self._show_for_good(self._segments(last.value))

    async def _show_for_now(self, value: Any) -> None:
        segments = _preview(self._segments(value))
        if not segments or segments == self._shown:
            return
        if self._message_id:
            await self._edit(segments)
        else:
            receipts = await self._send(segments)
            if len(receipts) != 1 or not receipts[0].ok or not receipts[0].message_id:
                # The bot cannot edit this message, so the final value becomes a separate message.
                self._every_s = None
                return
            self._message_id, self._receipts = receipts[0].message_id, receipts
        self._shown = segments
        # If the value changes during this wait, only the newest value is shown after the wait.
        await anyio.sleep(self._every_s or 0)

    async def _show_for_good(self, segments: Sequence[Segment]) -> tuple[Receipt, ...]:
        if not segments:
            return ()
        if self._message_id:
            if segments == self._shown:
                return self._receipts
            receipt = await self._edit(segments)
            # An edit whose outcome is unknown may be visible. A new message could show the text
            # twice.
            if receipt.state in (DeliveryState.SENT, DeliveryState.UNKNOWN):
                return (receipt,)
        return await self._send(segments)

    async def _mark_failed(self) -> None:
        if self._message_id:
            await self._edit((Text(plain_text(tuple(self._shown)) + _FAILED),))

    async def _edit(self, segments: Sequence[Segment]) -> Receipt:
        assert self._editor is not None
        return await self._editor.edit(self._chat, self._message_id, segments)

    def _segments(self, value: Any) -> Sequence[Segment]:
        if value is None:
            return ()
        if self._render is not None:
            value = self._render(value)
        if isinstance(value, str):
            return (Text(value),) if value.strip() else ()
        if isinstance(value, Segment):
            return (value,)
        if isinstance(value, list | tuple) and value and all(isinstance(v, Segment) for v in value):
            return tuple(value)
        if isinstance(value, dict | list | tuple):
            return (Text(json.dumps(value, ensure_ascii=False, indent=2, default=str)),)
        text = str(value)
        return (Text(text),) if text.strip() else ()


def _preview(segments: Sequence[Segment]) -> Sequence[Segment]:
    match segments:
        case (Text(text),) if len(text) > _PREVIEW:
            return (Text(f"… {text[-_PREVIEW:]}"),)
    return segments
