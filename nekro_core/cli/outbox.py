"""Implements ``nekro outbox``: lists, resends or drops messages that were not sent or whose
delivery is unknown.

The command uses the HTTP API of the running bot. If no bot runs, the command opens the database
itself.
"""

import argparse
import sys
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import httpx

from nekro_core.app.instance import InstanceInfo, find_running_instance
from nekro_core.app.settings import Settings
from nekro_core.chat import ChatKey, ChatKeyError, DeliveryState, plain_text
from nekro_core.delivery.outbound.admin import OPEN_STATES
from nekro_core.store import DataFolderLock, DeliveryRow, GuardFailed, Store, StoreError
from nekro_core.store.deliveries import is_marked
from nekro_core.system.errors import NekroError

_CALL_S = 20.0
_SHOWN = 200


class _Refused(NekroError):
    """The action was refused. The text says why."""


async def run(options: argparse.Namespace) -> int:
    """Run the action that the command line names, and return an exit status. Raises
    `SettingsError`."""
    settings = Settings.load()
    try:
        place = find_running_instance(settings.nekro_data_dir)
        act = _at_the_bot(place, options) if place else _in_the_database(settings, options)
        for line in await act:
            print(line)
    except (_Refused, StoreError, httpx.HTTPError) as error:
        print(str(error) or type(error).__name__, file=sys.stderr)
        return 1
    return 0


async def _at_the_bot(place: InstanceInfo, options: argparse.Namespace) -> list[str]:
    async with httpx.AsyncClient(
        base_url=f"{place.address}/api/v1",
        headers={"Authorization": f"Bearer {place.token}"},
        timeout=_CALL_S,
        trust_env=False,
    ) as client:
        if options.action == "list":
            asked = {"states": options.states, "chat": options.chat, "limit": options.limit}
            answer = await client.get("/outbox", params=asked)
            return _table(_checked(answer)["messages"])
        answer = await client.post(f"/outbox/{quote(options.id, safe='')}/{options.action}")
        return _table([_checked(answer)])


def _checked(answer: httpx.Response) -> dict[str, Any]:
    try:
        said: dict[str, Any] = answer.json()
    except ValueError:
        raise _Refused(f"the bot answered {answer.status_code}: {answer.text[:200]}") from None
    if answer.is_error:
        raise _Refused(str(said.get("error", {}).get("message", said)))
    return said


async def _in_the_database(settings: Settings, options: argparse.Namespace) -> list[str]:
    with DataFolderLock(settings.nekro_data_dir.absolute()):
        async with Store.open(settings.database_url, settings.nekro_store) as store:
            if options.action == "list":
                rows = await store.deliveries.newest(
                    *_states(options.states), chat_key=_chat(options.chat), limit=options.limit
                )
                return _table([_view(row) for row in rows])
            row = await store.deliveries.get(options.id)
            if row is None:
                raise _Refused(f"there is no message {options.id!r}: nekro outbox list")
            resend, state = options.action == "resend", row.state
            if not (state.can_be_resent if resend else state.can_be_dropped):
                raise _Refused(f"{options.id} is {state.value}: nothing to {options.action}")
            changed = f"{options.id} was changed meanwhile: nekro outbox list"
            if resend:
                try:
                    row = await store.deliveries.renew(row, "sent again by the operator")
                except GuardFailed:
                    raise _Refused(changed) from None
                within = f"{settings.nekro_delivery.resend_for_s:g} s"
                return [*_table([_view(row)]), f"it is sent when the bot starts within {within}"]
            reason = "dropped by the operator"
            written = await store.deliveries.mark(
                row, DeliveryState.DROPPED, reason=reason, only_from=(state,)
            )
            if not is_marked(written):
                raise _Refused(changed)
            return ["dropped"]


def _states(text: str) -> tuple[DeliveryState, ...]:
    if text == "all":
        return tuple(DeliveryState)
    try:
        return tuple(map(DeliveryState, text.split(","))) if text else OPEN_STATES
    except ValueError:
        known = ", ".join(DeliveryState)
        raise _Refused(f"--states {text!r}: expected all, or some of {known}") from None


def _chat(text: str) -> ChatKey | None:
    try:
        return ChatKey.parse(text) if text else None
    except ChatKeyError as error:
        raise _Refused(str(error)) from None


def _view(row: DeliveryRow) -> dict[str, Any]:
    return {
        "id": row.delivery_id,
        "chat_key": str(row.chat_key),
        "state": row.state.value,
        "text": plain_text(row.segments),
        "reason": row.reason,
        "created": row.created,
    }


def _table(messages: list[dict[str, Any]]) -> list[str]:
    lines = []
    for each in messages:
        at = datetime.fromtimestamp(each["created"], UTC).astimezone().isoformat(" ", "seconds")
        reason = f" ({_plain(each['reason'])})" if each["reason"] else ""
        lines.append(f"{each['id']}  {each['state']:8} {at}  {_plain(each['chat_key'])}{reason}")
        lines.append(f"    {_plain(each['text'])}")
    return lines or ["nothing: all that was sent has arrived"]


def _plain(text: str) -> str:
    """Shorten a text, and replace characters that would control the terminal, because the text may
    come from other people."""
    return "".join(c if c.isprintable() else " " for c in text[:_SHOWN])
