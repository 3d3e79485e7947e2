"""Draws the list of chats of all platforms."""

from urllib.parse import quote

import anyio
from nicegui import ui

from nekro_core.console.view import ROOT, View
from nekro_core.console.widgets import PagedList, badge, local_time
from nekro_core.delivery.activity import Recorded
from nekro_core.operator.chats import ChatsView, ChatView
from nekro_core.policy import ChatState

_PAGE = 50
_NEWEST = 5
"""How many chats are read again when something happens. More of them change in a burst rarely."""
_PAUSE_S = 0.1
"""Pause between two updates, so that a busy bot does not keep the browser busy."""
STATE_KINDS = {ChatState.ON: "good", ChatState.OBSERVE: "warn", ChatState.OFF: "bad"}


def chat_address(chat_key: object) -> str:
    """Return the address of a chat's page."""
    return f"{ROOT}/chats/{quote(str(chat_key), safe='')}"


async def chats_page(view: View) -> None:
    """Draw the page."""
    area, actor = view.operator.chats, view.actor
    ui.label(view.say("chats.lead")).classes("nc-lead")
    with ui.element("div").classes("nc-filters"):
        words = ui.input(view.say("chats.find")).props("outlined dense clearable debounce=250")
        states = {"": view.say("chats.any_state")}
        states |= {each.value: view.say(f"chats.state_{each.value}") for each in ChatState}
        state = ui.select(states, value="", label=view.say("chats.state")).props("outlined dense")
        names = sorted({each.name for each in await view.operator.platforms.listed(actor)})
        platforms = {"": view.say("chats.any_platform")} | {name: name for name in names}
        platform = ui.select(platforms, value="", label=view.say("chats.platform"))
        platform.props("outlined dense")
    cards: dict[str, tuple[int, ui.element]] = {}
    next_before = 0

    async def ask(*, before: int, limit: int) -> ChatsView:
        return await area.newest(
            actor,
            text=words.value or "",
            state=ChatState(state.value) if state.value else None,
            platform=platform.value or "",
            before=before,
            limit=limit,
        )

    async def read(last: ChatView | None) -> list[ChatView]:
        nonlocal next_before
        page = await ask(before=next_before if last else 0, limit=_PAGE)
        next_before = page.before
        return page.chats

    def draw(chat: ChatView) -> None:
        cards[str(chat.chat_key)] = chat.newest_seq, _draw_chat(view, chat)

    rows = PagedList(view, read, draw, page=_PAGE, nothing="chats.nothing")

    async def update() -> None:
        """Put the chats with news on top."""
        page = await ask(before=0, limit=_NEWEST)
        for chat in reversed(page.chats):
            seq, card = cards.get(str(chat.chat_key), (0, None))
            if seq == chat.newest_seq:
                continue
            if not cards:
                await rows.refresh()
                return
            if card is not None and not card.is_deleted:
                card.delete()
            with rows.rows:
                draw(chat)
                cards[str(chat.chat_key)][1].move(target_index=0)

    async def begin() -> None:
        cards.clear()
        await rows.refresh()

    async def follow() -> None:
        changed = anyio.Event()

        async def draw_changes() -> None:
            nonlocal changed
            while True:
                await changed.wait()
                changed = anyio.Event()
                await update()
                await anyio.sleep(_PAUSE_S)

        while True:
            async with area.follow() as events, anyio.create_task_group() as tasks:
                tasks.start_soon(draw_changes)
                changed.set()  # for what happened before the iterator began
                async for event in events:
                    if isinstance(event, Recorded):
                        changed.set()
                tasks.cancel_scope.cancel()

    for each in (words, state, platform):
        each.on_value_change(begin)
    await begin()
    view.while_open(follow)


def _draw_chat(view: View, chat: ChatView) -> ui.element:
    with ui.link(target=chat_address(chat.chat_key)).classes("nc-card nc-chats-row") as card:
        with ui.element("div").classes("nc-row"):
            badge(view.say(f"chats.state_{chat.state.value}"), STATE_KINDS[chat.state])
            ui.label(chat.name or str(chat.chat_key)).classes("nc-grow nc-chats-name")
            if chat.working:
                badge(view.say("chats.working"), "warn")
            ui.label(local_time(chat.newest_time)).classes("nc-soft nc-small")
        by = f"{chat.newest_by}: " if chat.newest_by else ""
        ui.label(f"{by}{chat.newest_text}").classes("nc-chats-preview")
        counts = view.say("chats.counts", messages=chat.messages, sent=chat.sent)
        about = (chat.platform, chat.account, str(chat.chat_key), counts)
        ui.label(" · ".join(filter(None, about))).classes("nc-soft nc-small nc-lines")
    return card
