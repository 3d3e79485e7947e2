"""An engine in a process of its own: a crash of its C code costs one sentence, not the bot."""

from collections.abc import Mapping
from typing import Any

from nekro_core.speech.speaker import EngineUnavailable
from nekro_core.system.workers.worker import WorkerLost, WorkerProcess


class SpeechWorker(WorkerProcess):
    """A worker that speaks."""

    async def ask(self, request: Mapping[str, Any]) -> tuple[dict[str, Any], bytes]:
        """As `WorkerProcess.ask`, but raises `EngineUnavailable`."""
        try:
            return await super().ask(request)
        except WorkerLost as lost:
            raise EngineUnavailable(str(lost)) from lost
