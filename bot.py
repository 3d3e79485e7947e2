"""The entry point in NoneBot's manner: ``python bot.py``."""

import sys

from nekro_core.gateway import run

if __name__ == "__main__":
    sys.exit(run())
