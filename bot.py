"""Start the bot with ``python bot.py``, as NoneBot's projects do."""

import sys

from nekro_core.system.start_imports import quicken_imports

if __name__ == "__main__":
    quicken_imports()
    from nekro_core.app.server import run

    sys.exit(run())
