"""``nekro fetch``: downloads the weights of the embedded model."""

import argparse
import sys

from nekro_core.app.progress import ProgressLine
from nekro_core.app.settings import Settings
from nekro_core.llm.embedded import WeightsError, ensure_weights


async def run(_: argparse.Namespace) -> int:
    """Download the weights if they are not there, and print where they are. Return the exit
    status."""
    settings = Settings.load()
    line = ProgressLine(sys.stderr)
    try:
        path = await ensure_weights(
            settings.nekro_embedded, settings.nekro_data_dir / "models", line.report
        )
    except WeightsError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        line.end()
    print(path)
    return 0
