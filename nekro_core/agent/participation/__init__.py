"""Decides in which talk of a group the bot takes part.

::

    line_text.py       the words and cues of one line
    conversation.py    the newest lines of a chat
    facts.py           who said what to whom before a line
    features.py        turns these facts into numbers
    trees.py           evaluates learnt decision trees
    addressee.py       to whom a line goes: the learnt model, with addressee.json
    records.py         the records of a chat as lines
    verdict.py         whether a line goes on talking to the bot, with reasons
    followed_chats.py  the conversations of all chats, read from the store
    unasked.py         whether the bot speaks unasked
    upgrade.py         keeps the behaviour that a bot had before an upgrade

The first six modules need no installed package except numpy. So the script that learns the model
(``scripts/follows/learn.py``) can use them too.
"""
