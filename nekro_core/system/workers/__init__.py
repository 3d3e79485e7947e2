"""Worker processes: programs of ours beside the bot, each with one library that may crash.

::

    worker.py    the bot's side: starts a worker on demand, asks it, ends it
    loop.py      the worker's side: answers requests until none comes any more
"""
