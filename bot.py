"""The entry point in NoneBot's manner: ``python bot.py``."""

from nekro_core.app import run

if __name__ == "__main__":
    run()
