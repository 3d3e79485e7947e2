"""The capabilities behind ``ctx.config`` and ``ctx.db``. A plugin can read and write its own
tables. It can read its configuration, some settings of the bot, and three tables of the bot."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nekro_core.chat import ChatKey, ChatKeyError
from nekro_core.compat.maibot.capability import (
    Answer,
    CapabilityCall,
    CapabilityEntry,
    CapabilityError,
    success,
)
from nekro_core.compat.maibot.formats.messages import readable

_MOST_ROWS = 10_000
_MOST_TEXT = 4 * 1024 * 1024
_SHARED = ("Messages", "ChatStreams", "PersonInfo")
"""Tables of MaiBot that plugins can read. Their rows are made from the bot's database."""

Row = dict[str, Any]


async def config_get(call: CapabilityCall) -> Answer:
    """``config.get``: the value of a dotted key in the plugin's configuration. If the plugin has no
    such key, the value in `BotView.facts`. If both have none, the given default."""
    key = call.text("key", needed=True)
    for values in (call.plugin.settings, call.bot.facts()):
        exists, value = _value_at(values, key)
        if exists:
            return success(value=value)
    return success(value=call.args.get("default"))


async def config_plugin(call: CapabilityCall) -> Answer:
    """``config.get_plugin``: the plugin's own configuration. The configuration of another plugin is
    refused, because it may contain keys and passwords."""
    wanted = call.text("plugin_name")
    if wanted and wanted not in (call.plugin.plugin_id, call.plugin.folder.name):
        raise CapabilityError(
            f"config.get_plugin: {wanted!r} is another plugin, whose configuration is private"
        )
    return success(value=dict(call.plugin.settings))


async def get(call: CapabilityCall) -> Answer:
    """``database.get``: all rows that match the filters, or only the first of them."""
    rows = await _matching_rows(call)
    if call.args.get("single_result") is True:
        return success(result=rows[0] if rows else None)
    return success(result=rows)


async def save(call: CapabilityCall) -> Answer:
    """``database.save``: changes the row whose key field has the given value. If there is no such
    row, a new row is added."""
    data = _data(call)
    model = _own_model(call)
    table = await _table(call, model)
    key, value = call.text("key_field") or "id", call.args.get("key_value")
    saved = next((row for row in table if value is not None and row.get(key) == value), None)
    if saved is None:
        saved = {"id": max((int(row.get("id") or 0) for row in table), default=0) + 1}
        if value is not None:
            saved[key] = value
        table.append(saved)
    saved.update(data)
    await _put(call, model, table)
    return success(result=dict(saved))


async def delete(call: CapabilityCall) -> Answer:
    """``database.delete``: deletes the rows that match filters. A call without filters is an
    error."""
    if not call.args.get("filters"):
        raise CapabilityError(
            "database.delete: without filters it would delete every row; give filters"
        )
    model = _own_model(call)
    table = await _table(call, model)
    match = _matcher(call.args.get("filters"))
    left = [row for row in table if not match(row)]
    await _put(call, model, left)
    return success(result=len(table) - len(left), count=len(table) - len(left))


async def count(call: CapabilityCall) -> Answer:
    """``database.count``: the number of rows that match filters."""
    return success(count=len(await _matching_rows(call, limited=False)))


async def query(call: CapabilityCall) -> Answer:
    """``database.query``: does what ``query_type`` names: get, create, update, delete or count."""
    match call.text("query_type") or "get":
        case "get":
            return await get(call)
        case "create":
            return await save(call)
        case "update":
            return await _update(call)
        case "delete":
            return await delete(call)
        case "count":
            answer = await count(call)
            return success(result=answer["count"])
        case other:
            raise CapabilityError(
                f"database.query: {other!r}; expected get, create, update, delete or count"
            )


async def _update(call: CapabilityCall) -> Answer:
    data, model = _data(call), _own_model(call)
    table = await _table(call, model)
    match = _matcher(call.args.get("filters"))
    changed = [row for row in table if match(row)]
    for row in changed:
        row.update(data)
    await _put(call, model, table)
    return success(result=len(changed))


async def _matching_rows(call: CapabilityCall, *, limited: bool = True) -> list[Row]:
    model = call.text("model_name", needed=True)
    table = await (_shared(call, model) if model in _SHARED else _table(call, model))
    match = _matcher(call.args.get("filters"))
    rows = [row for row in table if match(row)]
    order = call.args.get("order_by") or []
    for field in reversed([order] if isinstance(order, str) else list(order)):
        rows.sort(key=_by(str(field).lstrip("-")), reverse=str(field).startswith("-"))
    if limited and call.args.get("limit") is not None:
        rows = rows[: call.number("limit", _MOST_ROWS, _MOST_ROWS)]
    return rows


async def _shared(call: CapabilityCall, model: str) -> list[Row]:
    store = call.bot.store
    if model == "ChatStreams":
        return [await call.bot.stream(key) for key in (await store.chats.all())[:_MOST_ROWS]]
    filters = call.args.get("filters") or {}
    if model == "PersonInfo":
        name = str(filters.get("person_name") or filters.get("nickname") or "")
        return [
            {"person_id": f"{place}:{user}", "user_id": user, "person_name": name, "nickname": name}
            for place, user in (await store.users.named(name) if name else ())
        ]
    try:
        given = filters.get("chat_id") or filters.get("stream_id") or filters.get("session_id")
        key = ChatKey.parse(str(given)) if given else None
    except ChatKeyError as error:
        raise CapabilityError(f"{call.name}: {error}") from None
    records = await store.messages.between(key, 0.0, 4e9, 1000)
    return [_flat(call.bot.message(record)) for record in records]


def _flat(message: Mapping[str, Any]) -> Row:
    user = message["message_info"]["user_info"]
    return {
        **message,
        "user_id": user["user_id"],
        "user_nickname": user["user_nickname"],
        "display_message": readable([message]),
    }


def _own_model(call: CapabilityCall) -> str:
    model = call.text("model_name", needed=True)
    if model in _SHARED:
        raise CapabilityError(f"{call.name}: {model} is the bot's own and can only be read")
    return model


def _data(call: CapabilityCall) -> Mapping[str, Any]:
    data = call.args.get("data")
    if not isinstance(data, Mapping):
        raise CapabilityError(f"{call.name}: data must be a dict, got {type(data).__name__}")
    return data


async def _table(call: CapabilityCall, model: str) -> list[Row]:
    text = await call.bot.services.plugin_data.get(
        call.plugin.native.key, store_key=_store_key(model)
    )
    table: list[Row] = json.loads(text) if text else []
    return table


async def _put(call: CapabilityCall, model: str, table: Sequence[Row]) -> None:
    try:
        text = json.dumps(table, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise CapabilityError(
            f"{call.name}: {error}; rows hold texts, numbers, lists and dicts"
        ) from None
    if len(text) > _MOST_TEXT or len(table) > _MOST_ROWS:
        raise CapabilityError(
            f"{call.name}: {model} would be larger than {_MOST_ROWS} rows or {_MOST_TEXT} "
            "characters: keep a database of your own in ctx.paths.data_dir"
        )
    await call.bot.services.plugin_data.set(
        call.plugin.native.key, text, store_key=_store_key(model)
    )


def _store_key(model: str) -> str:
    return f"table:{model}"[:200]


def _matcher(filters: Any) -> Callable[[Row], bool]:
    """Make a function that says whether a row matches filters such as ``{"who": "mei",
    "points__gte": 3}``."""
    if not filters:
        return lambda _row: True
    if not isinstance(filters, Mapping):
        raise CapabilityError(f"filters must be a dict, got {type(filters).__name__}")
    for key in filters:
        _, _, operator = str(key).partition("__")
        if operator and operator not in _OPERATORS:
            raise CapabilityError(f"filter {key!r}: expected {', '.join(sorted(_OPERATORS))}")

    def match(row: Row) -> bool:
        for key, wanted in filters.items():
            name, _, operator = str(key).partition("__")
            try:
                if not _OPERATORS[operator or "eq"](row.get(name), wanted):
                    return False
            except TypeError:
                return False
        return True

    return match


_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "eq": lambda value, wanted: bool(value == wanted),
    "ne": lambda value, wanted: bool(value != wanted),
    "gt": lambda value, wanted: bool(value > wanted),
    "gte": lambda value, wanted: bool(value >= wanted),
    "lt": lambda value, wanted: bool(value < wanted),
    "lte": lambda value, wanted: bool(value <= wanted),
    "in": lambda value, wanted: value in wanted,
    "contains": lambda value, wanted: wanted in value,
}


def _by(name: str) -> Callable[[Row], tuple[int, Any]]:
    return lambda row: _sortable(row.get(name))


def _sortable(value: Any) -> tuple[int, Any]:
    if isinstance(value, bool | int | float):
        return (1, float(value))
    return (0, "") if value is None else (2, str(value))


def _value_at(values: Mapping[str, Any], key: str) -> tuple[bool, Any]:
    current: Any = values
    for part in key.split("."):
        if not isinstance(current, Mapping) or part not in current:
            return False, None
        current = current[part]
    return True, current


TABLE: Mapping[str, CapabilityEntry] = {
    "config.get": CapabilityEntry(config_get),
    "config.get_plugin": CapabilityEntry(config_plugin, "works; of the plugin itself alone"),
    "config.get_all": CapabilityEntry(config_plugin),
    "database.get": CapabilityEntry(
        get, "works; of MaiBot's tables Messages, ChatStreams, PersonInfo"
    ),
    "database.save": CapabilityEntry(save, "works; in the plugin's own tables"),
    "database.delete": CapabilityEntry(delete, "works; never without filters"),
    "database.count": CapabilityEntry(count),
    "database.query": CapabilityEntry(query),
}
