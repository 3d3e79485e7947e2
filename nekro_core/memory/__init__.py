"""What the agent can find of its chats' past.

::

    search/   finds messages by their words, their meaning, their authors and their times
"""
