"""Draws the list of chats of all platforms."""

from urllib.parse import quote

import anyio
from nicegui import ui

from nekro_core.console.view import ROOT, View, link_to
from nekro_core.console.widgets import PagedList, badge, local_time
from nekro_core.delivery.activity import Recorded
from nekro_core.operator.chat_views import ChatRowView, ChatsView
from nekro_core.policy import ChatState

_PAGE = 50
_NEWEST = 5
"""Number of chats that are read again after an event. More than this many chats rarely change at
the same time."""
_PAUSE_S = 0.1
"""Seconds between two updates of the list. The pause keeps a busy bot from keeping the browser
busy."""
STATE_KINDS = {ChatState.ON: "good", ChatState.OBSERVE: "warn", ChatState.OFF: "bad"}


def chat_address(chat_key: object) -> str:
    """Return the address of a chat's page."""
    return f"{ROOT}/chats/{quote(str(chat_key), safe='')}"


async def chats_page(view: View) -> None:
    """Draw the page."""
    ui.label(view.say("chats.lead")).classes("nc-lead")
    names = {each.name for each in await view.operator.platforms.listed(view.actor)}
    chats = _ChatList(view, sorted(names))
    await chats.begin()
    view.while_open(chats.follow)


class _ChatList:
    """The list with its filters. A chat with a new message moves to the top."""

    def __init__(self, view: View, platforms: list[str]) -> None:
        self._view = view
        self._cards: dict[str, tuple[int, ui.element]] = {}
        self._before = 0
        self._changed = anyio.Event()
        say = view.say
        with ui.element("div").classes("nc-filters"):
            self._words = ui.input(say("chats.find"), on_change=self.begin)
            self._words.props("outlined dense clearable debounce=250")
            states = {"": say("chats.any_state")}
            states |= {each.value: say(f"chats.state_{each.value}") for each in ChatState}
            self._state = ui.select(
                states, value="", label=say("chats.state"), on_change=self.begin
            ).props("outlined dense")
            choices = {"": say("chats.any_platform")} | {name: name for name in platforms}
            self._platform = ui.select(
                choices, value="", label=say("chats.platform"), on_change=self.begin
            ).props("outlined dense")
        self._rows = PagedList(view, self._read, self._draw, page=_PAGE, nothing="chats.nothing")

    async def begin(self) -> None:
        """Read the first page."""
        self._cards.clear()
        await self._rows.refresh()

    async def follow(self) -> None:
        """Show changes until cancelled."""
        while True:
            async with (
                self._view.operator.chats.follow() as events,
                anyio.create_task_group() as tasks,
            ):
                tasks.start_soon(self._draw_changes)
                self._changed.set()  # Also draw the changes that came before this loop began.
                async for event in events:
                    if isinstance(event, Recorded):
                        self._changed.set()
                tasks.cancel_scope.cancel()

    async def _draw_changes(self) -> None:
        while True:
            await self._changed.wait()
            self._changed = anyio.Event()
            await self._update()
            await anyio.sleep(_PAUSE_S)

    async def _ask(self, *, before: int, limit: int) -> ChatsView:
        return await self._view.operator.chats.newest(
            self._view.actor,
            text=self._words.value or "",
            state=ChatState(self._state.value) if self._state.value else None,
            platform=self._platform.value or "",
            before=before,
            limit=limit,
        )

    async def _read(self, last: ChatRowView | None) -> list[ChatRowView]:
        page = await self._ask(before=self._before if last else 0, limit=_PAGE)
        self._before = page.before
        return page.chats

    def _draw(self, chat: ChatRowView) -> None:
        self._cards[str(chat.chat_key)] = chat.newest_seq, _draw_chat(self._view, chat)

    async def _update(self) -> None:
        """Move the chats with new messages to the top."""
        page = await self._ask(before=0, limit=_NEWEST)
        if page.chats and not self._cards:
            await self._rows.refresh()
            return
        for chat in reversed(page.chats):
            seq, card = self._cards.get(str(chat.chat_key), (0, None))
            if seq == chat.newest_seq:
                continue
            if card is not None and not card.is_deleted:
                card.delete()
            with self._rows.rows:
                self._draw(chat)
                self._cards[str(chat.chat_key)][1].move(target_index=0)


def _draw_chat(view: View, chat: ChatRowView) -> ui.element:
    with ui.link(target=link_to(chat_address(chat.chat_key))).classes(
        "nc-card nc-chats-row"
    ) as card:
        with ui.element("div").classes("nc-row"):
            badge(view.say(f"chats.state_{chat.state.value}"), STATE_KINDS[chat.state])
            ui.label(chat.name or str(chat.chat_key)).classes("nc-grow nc-chats-name")
            if chat.working:
                badge(view.say("chats.working"), "warn")
            ui.label(local_time(chat.newest_time)).classes("nc-soft nc-small")
        by = f"{chat.newest_by}: " if chat.newest_by else ""
        ui.label(f"{by}{chat.newest_text}").classes("nc-chats-preview")
        counts = view.say("chats.counts", messages=chat.messages, sent=chat.sent)
        about = (chat.platform, chat.account, str(chat.chat_key), counts, worker_text(view, chat))
        ui.label(" · ".join(filter(None, about))).classes("nc-soft nc-small nc-lines")
    return card


def worker_text(view: View, chat: ChatRowView) -> str:
    """Return which worker of a cluster owns a chat; empty if the bot is one process."""
    if not view.operator.cluster.several:
        return ""
    if not chat.worker:
        return view.say("chats.no_worker")
    return view.say("chats.worker", worker=chat.worker)
