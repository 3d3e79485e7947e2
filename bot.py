"""Start the bot with ``python bot.py``, as NoneBot's projects do."""

import gc
import sys

if __name__ == "__main__":
    # Imported modules are never garbage, and collections during the imports take half a second of
    # the start. The gateway enables the collector again once the bot answers.
    gc.disable()
    from nekro_core.app.server import run

    sys.exit(run())
