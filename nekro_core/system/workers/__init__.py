"""Runs libraries that may crash in worker processes beside the bot, one library in each.

::

    worker.py    runs in the bot: starts a worker on demand, sends it requests, ends it
    loop.py      runs in the worker: answers requests until its input ends or it is idle
"""
