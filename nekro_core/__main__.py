"""``python -m nekro_core``: the same as ``nekro``."""

import sys

CONFINED_CHECK = "confined-check"
"""The first argument of the process in which a plugin is checked. The process gives up its rights
before it imports the bot. So it cannot be started like the other commands, which import the bot
first."""


def main() -> int:
    """Run one command, or the check of a plugin, and return the exit status."""
    if sys.argv[1:2] == [CONFINED_CHECK]:
        from nekro_core.cli.plugin_kit.confined_check import check_here  # noqa: PLC0415

        check_here(sys.argv[2])
        return 0
    from nekro_core.cli import main as run_command  # noqa: PLC0415

    return run_command()


if __name__ == "__main__":
    sys.exit(main())
