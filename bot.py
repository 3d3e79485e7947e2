"""The entry point in NoneBot's manner: ``python bot.py``."""

import gc
import sys

if __name__ == "__main__":
    # What is imported stays; looking through it for garbage takes half a second of the start. The
    # gateway switches it on again once the bot answers.
    gc.disable()
    from nekro_core.app.server import run

    sys.exit(run())
