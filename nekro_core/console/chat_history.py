"""Draws the history of a chat. New messages appear by themselves, older messages on demand. The
history can be searched."""

from collections.abc import Callable, Collection

import anyio
from nicegui import ui

from nekro_core.chat import ChatKey
from nekro_core.console.chat_messages import draw_decision, draw_message
from nekro_core.console.view import View
from nekro_core.console.widgets import local_time
from nekro_core.delivery.activity import Recorded, Working
from nekro_core.operator.chat_views import MessageView

_PAGE = 40
"""Number of messages that are read at once."""
_MOST_UNDECIDED = 20
"""The bot may not have decided yet whether it answers a message. For at most this many such
messages, the page reads again what was decided."""
_LOOK_S = 1.0
"""Seconds between two reads of the decisions about the newest messages."""
_GATHER_S = 0.1
"""Seconds from a change until it is drawn, together with the changes since then. Drawing each
change at once and separately takes time that the chat's turn needs: quick answers came a sixth
later."""
_TO_END = (
    "const h = document.querySelector('.nc-chat-history'); if (h) h.scrollTop = h.scrollHeight;"
)
"""Scrolls to the end of the history. While the person is at the end, ``console.js`` scrolls to each
new message."""


class ChatHistory:
    """The messages of a chat.

    Args:
        view: The opened page.
        chat_key: The chat.
        on_working: Called when a turn of the chat begins or ends.
    """

    def __init__(self, view: View, chat_key: ChatKey, on_working: Callable[[bool], object]) -> None:
        self._view, self._chat_key, self._on_working = view, chat_key, on_working
        self._lines: dict[int, tuple[MessageView, ui.element, ui.element]] = {}
        self._undecided: dict[int, None] = {}
        self._changed: set[int] = set()
        """The numbers of the messages that are new or changed, but not drawn yet."""
        self._working: bool | None = None
        """Whether a turn runs; None if the page shows it already."""
        self._news = anyio.Event()
        self._area = view.operator.chats
        self._before = 0
        with ui.element("section").classes("nc-chat-history") as self._box:
            self._box.props["tabindex"] = 0
            self._box.props["aria-label"] = view.say("chats.history")
            self._older = ui.button(view.say("frame.older"), on_click=self._read_older)
            self._older.props("flat no-caps").classes("nc-more")
            self._column = ui.element("div").classes("nc-list")

    async def begin(self) -> None:
        """Read the newest messages, and follow the chat while the page is open."""
        await self.show(before=0)
        self._view.while_open(self._follow)
        self._view.while_open(self._look_for_decisions)

    async def show(self, *, before: int) -> None:
        """Show the messages before the message ``before``. If it is 0, show the newest messages."""
        lines = await self._area.history(
            self._view.actor, chat_key=self._chat_key, before=before, limit=_PAGE
        )
        self._before = before
        self._column.clear()
        self._lines.clear()
        self._undecided.clear()
        self._older.set_visibility(len(lines) == _PAGE)
        with self._column:
            if not lines:
                ui.label(self._view.say("chats.no_messages")).classes("nc-soft")
            for line in lines:
                self._draw(line)
        ui.run_javascript(_TO_END)

    async def _read_older(self) -> None:
        first = min(self._lines, default=0)
        lines = await self._area.history(
            self._view.actor, chat_key=self._chat_key, before=first, limit=_PAGE
        )
        self._older.set_visibility(len(lines) == _PAGE)
        with self._column:
            for place, line in enumerate(lines):
                self._draw(line).move(target_index=place)

    def _draw(self, line: MessageView) -> ui.element:
        drawn, why = draw_message(self._view, line)
        self._lines[line.seq] = line, drawn, why
        if not line.decision.reason and line.author.value == "person":
            self._undecided[line.seq] = None
            while len(self._undecided) > _MOST_UNDECIDED:
                self._undecided.pop(next(iter(self._undecided)))
        return drawn

    async def _follow(self) -> None:
        while True:
            async with (
                self._area.follow(self._chat_key) as events,
                anyio.create_task_group() as tasks,
            ):
                await self._catch_up()
                tasks.start_soon(self._draw_changes)
                async for event in events:
                    match event:
                        case Recorded(record):
                            self._changed.add(record.seq)
                        case Working(_, busy):
                            self._working = busy
                    self._news.set()
                tasks.cancel_scope.cancel()

    async def _draw_changes(self) -> None:
        while True:
            await self._news.wait()
            await anyio.sleep(_GATHER_S)
            self._news = anyio.Event()
            if self._working is not None:
                self._on_working(self._working)
                self._working = None
            changed, self._changed = self._changed, set()
            await self._update(changed)

    async def _catch_up(self) -> None:
        """Draw what happened after the first messages were read and before the first event arrived,
        or while events were dropped."""
        chat = await self._area.one(self._view.actor, chat_key=self._chat_key)
        self._on_working(chat.working)
        if self._before:
            return
        newest = max(self._lines, default=0)
        for line in await self._newest_to(0):
            drawn = self._lines.get(line.seq)
            if line.seq > newest or (drawn is not None and drawn[0] != line):
                self._place(line)

    async def _update(self, changed: Collection[int]) -> None:
        """Draw messages that are new or changed. Usually they are the newest ones of the chat, so
        that one query reads all of them."""
        left = set(changed)
        while left:
            newest = max(left)
            lines = await self._newest_to(newest, min(len(left), _PAGE))
            for line in lines:
                if line.seq in left:
                    self._place(line)
            left -= {newest, *(line.seq for line in lines)}

    async def _newest_to(self, seq: int, limit: int = _PAGE) -> list[MessageView]:
        """Read the newest messages up to a message; with 0, the newest of the chat."""
        return await self._area.history(
            self._view.actor, chat_key=self._chat_key, before=seq + 1 if seq else 0, limit=limit
        )

    def _place(self, line: MessageView) -> None:
        """Draw a message at its place, instead of what was drawn of it before. A message that is
        older than all drawn ones is left out."""
        if line.seq < min(self._lines, default=0):
            return
        old = self._lines.get(line.seq)
        newer = sum(each > line.seq for each in self._lines)
        place = len(self._lines) - newer - (old is not None)
        if not self._lines:
            self._column.clear()
        if old is not None:
            old[1].delete()
        with self._column:
            drawn = self._draw(line)
            if newer:
                drawn.move(target_index=place)

    async def _look_for_decisions(self) -> None:
        while True:
            await anyio.sleep(_LOOK_S)
            self._undecided = {seq: None for seq in self._undecided if seq in self._lines}
            left = set(self._undecided)
            while left:
                newest = max(left)
                lines = await self._newest_to(newest)
                for line in lines:
                    if line.seq in left and line.decision.reason and line.seq in self._lines:
                        self._undecided.pop(line.seq, None)
                        draw_decision(self._view, line.decision, self._lines[line.seq][2])
                left -= {newest, *(line.seq for line in lines)}


def draw_search(view: View, chat_key: ChatKey, history: ChatHistory) -> None:
    """Draw the search in a chat. A click on a message that was found shows the history up to this
    message."""
    words = ui.input(view.say("chats.search")).props("outlined dense clearable")
    words.classes("nc-wide")
    found = ui.element("div").classes("nc-chat-found")

    async def find(before: int = 0) -> None:
        text = (words.value or "").strip()
        if not before:
            found.clear()
        if not text:
            await history.show(before=0)
            return
        page = await view.operator.chats.search(
            view.actor, text=text, chat_key=chat_key, before=before
        )
        with found:
            for line in page.messages:
                with ui.element("div").classes("nc-row nc-small"):
                    jump = ui.button(
                        local_time(line.time),
                        on_click=lambda line=line: history.show(before=line.seq + 1),
                    )
                    jump.props("flat dense no-caps")
                    ui.label(f"{line.user_name}: {line.text[:200]}").classes("nc-grow")
            if not page.messages and not page.before:
                ui.label(view.say("chats.found_nothing")).classes("nc-soft")
            if page.before:

                async def read_on(button: list[ui.button]) -> None:
                    button[0].delete()
                    await find(page.before)

                more: list[ui.button] = []
                more.append(ui.button(view.say("frame.older"), on_click=lambda: read_on(more)))
                more[0].props("flat dense no-caps")

    words.on("keydown.enter", lambda _: find())
    words.on("clear", lambda _: find())
