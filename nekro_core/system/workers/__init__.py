"""Worker processes: programs of ours beside the bot, each with one library that may crash.

::

    worker.py    runs in the bot: starts a worker on demand, asks it, ends it
    loop.py      runs in the worker: answers requests until the input ends or it is idle
"""
