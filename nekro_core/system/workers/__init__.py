"""Programs of ours that run in processes of their own, beside the bot.

::

    worker.py  the bot's side: starts one on demand, asks it, gives it up
    loop.py    the program's side: answers until nobody asks any more
"""
