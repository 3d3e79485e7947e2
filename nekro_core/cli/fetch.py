"""Implements ``nekro fetch``: downloads the weights of the embedded model."""

import argparse
import sys
from pathlib import Path

from nekro_core.app.progress import ProgressLine
from nekro_core.app.settings import Settings
from nekro_core.llm.embedded.fetch import ensure_weights
from nekro_core.llm.embedded.weights import WeightsError


async def run(_: argparse.Namespace) -> int:
    """Download the weights if they are missing, and print their path. Return the exit status."""
    path = await fetch_weights(Settings.load())
    if path is None:
        return 1
    print(path)
    return 0


async def fetch_weights(settings: Settings) -> Path | None:
    """Download the weights of the embedded model if they are missing, and return their path. If
    this fails, print the reason and return None."""
    line = ProgressLine(sys.stderr)
    try:
        return await ensure_weights(
            settings.nekro_embedded, settings.nekro_data_dir / "models", line.report
        )
    except WeightsError as error:
        print(error, file=sys.stderr)
        return None
    finally:
        line.end()
