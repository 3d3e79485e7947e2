"""Converts runs to JSON."""

from typing import Any

from nekro_core.chat import RunRecord

Json = dict[str, Any]


def run_view(run: RunRecord) -> Json:
    """Convert a run to JSON."""
    return {
        "run_id": run.run_id,
        "room": f"{run.chat_key.kind.value}_{run.chat_key.native_id}",
        "code": run.code,
        "output": run.output,
        "stop": run.stop,
        "error": run.error,
        "started": run.started,
        "seconds": run.seconds,
    }
