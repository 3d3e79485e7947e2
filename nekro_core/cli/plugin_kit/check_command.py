"""Runs ``nekro plugin check`` in less time: the process of the check imports the bot while this
process reads the settings."""

import argparse
import sys
from pathlib import Path

from nekro_core.plugins.installation.check_process import CheckProcess


async def check_command(options: argparse.Namespace) -> int:
    """Check the plugin at ``options.path``, and return an exit status."""
    async with CheckProcess.open() as process:
        # These modules import much of the bot.
        from nekro_core.app.settings import Settings  # noqa: PLC0415
        from nekro_core.app.settings_sources import SettingsError  # noqa: PLC0415
        from nekro_core.cli.plugin_kit.check import check  # noqa: PLC0415
        from nekro_core.plugins.host.links import NoPlugin  # noqa: PLC0415
        from nekro_core.plugins.installation.sources import SourceRefused  # noqa: PLC0415

        try:
            settings = Settings.load()
            return await check(
                Path(options.path),
                sys.stdout,
                settings.nekro_plugin,
                process,
                settings.nekro_data_dir.absolute(),
                sys.stderr,
            )
        except (NoPlugin, OSError, SettingsError, SourceRefused) as error:
            print(error, file=sys.stderr)
            return 1
