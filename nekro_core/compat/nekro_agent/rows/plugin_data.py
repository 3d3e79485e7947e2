"""``DBPluginData`` and ``DBExecCode``: the values that plugins store, and the runs of code."""

from datetime import datetime
from enum import IntEnum
from typing import Any, Self

from nekro_core.compat.nekro_agent.host import current_host
from nekro_core.compat.nekro_agent.rows.conditions import number_column, second_column, text_column
from nekro_core.compat.nekro_agent.rows.query import Row
from nekro_core.compat.nekro_agent.rows.source import RowSource, TableSource


class DBPluginData(Row):
    """A text that a plugin has stored with ``plugin.store``."""

    id: int = 0
    plugin_key: str = ""
    target_chat_key: str = ""
    target_user_id: str = ""
    data_key: str = ""
    data_value: str = ""

    @classmethod
    async def source(cls) -> RowSource:
        """See `Row.source`."""
        return TableSource(
            queries=current_host().store.queries,
            table="plugin_data",
            read=dict,
            columns={
                "id": number_column("id"),
                "plugin_key": text_column("plugin"),
                "target_chat_key": text_column("chat_key"),
                "target_user_id": text_column("user_key"),
                "data_key": text_column("store_key"),
                "data_value": text_column("value"),
            },
            orders={"id": "id", "data_key": "store_key"},
        )

    @classmethod
    def of(cls, row: Any) -> Self:
        """See `Row.of`."""
        return cls(
            id=row["id"],
            plugin_key=row["plugin"],
            target_chat_key=row["chat_key"],
            target_user_id=row["user_key"],
            data_key=row["store_key"],
            data_value=row["value"],
        )

    async def save(self, *_: Any, **__: Any) -> None:
        """Store the text."""
        await current_host().store.plugin_data.set(self.plugin_key, self.data_value, **self._key())

    async def delete(self, *_: Any, **__: Any) -> None:
        """Delete the text."""
        await current_host().store.plugin_data.delete(self.plugin_key, **self._key())

    def _key(self) -> dict[str, str]:
        return {
            "chat_key": self.target_chat_key,
            "user_key": self.target_user_id,
            "store_key": self.data_key,
        }


class ExecStopType(IntEnum):
    """Why a run of code ended. ``AGENT`` and ``MULTIMODAL_AGENT`` mean that a tool ended it."""

    NORMAL = 0
    ERROR = 1
    TIMEOUT = 2
    AGENT = 8
    MANUAL = 9
    SECURITY = 10
    MULTIMODAL_AGENT = 11


_STOPS = {
    "": ExecStopType.NORMAL,  # the run has not ended
    "finished": ExecStopType.NORMAL,
    "printed": ExecStopType.NORMAL,
    "said": ExecStopType.NORMAL,
    "said_beside": ExecStopType.NORMAL,
    "said_part": ExecStopType.NORMAL,
    "saying": ExecStopType.NORMAL,
    "answered": ExecStopType.NORMAL,
    "timeout": ExecStopType.TIMEOUT,
    "ended_by_call": ExecStopType.AGENT,
    "cancelled": ExecStopType.MANUAL,
    "cut_off": ExecStopType.MANUAL,
}


def stop_type(stop: str) -> ExecStopType:
    """Convert the bot's word for why a run ended to an `ExecStopType`."""
    return _STOPS.get(stop, ExecStopType.ERROR)


class DBExecCode(Row):
    """A run of the code of a reply."""

    id: str = ""
    chat_key: str = ""
    code_text: str = ""
    outputs: str = ""
    success: bool = False
    stop_type: ExecStopType = ExecStopType.NORMAL
    exec_time_ms: int = 0
    create_time: datetime | None = None

    @classmethod
    async def source(cls) -> RowSource:
        """See `Row.source`."""
        return TableSource(
            queries=current_host().store.queries,
            table="runs",
            read=dict,
            columns={
                "id": text_column("run_id"),
                "chat_key": text_column("chat_key"),
                "create_time": second_column("started"),
            },
            orders={"id": "started", "create_time": "started"},
            default_order="started",
        )

    @classmethod
    def of(cls, row: Any) -> Self:
        """See `Row.of`."""
        return cls(
            id=row["run_id"],
            chat_key=row["chat_key"],
            code_text=row["code"],
            outputs=row["output"],
            success=not row["error"],
            stop_type=stop_type(row["stop"]),
            exec_time_ms=int(row["seconds"] * 1000),
            create_time=datetime.fromtimestamp(row["started"]).astimezone(),
        )
