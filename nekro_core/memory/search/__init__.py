"""Finds messages of a chat.

::

    terms.py       splits a text into comparable terms
    message.py     what the index holds of one message
    segments.py    makes and merges segments of the index
    indexer.py     keeps the index complete, in the background
    dates.py       the times that a question or a filter names
    question.py    what a question asks for: terms, related words, times
    word_hits.py   reads the postings of terms, and the newest messages, which have none
    ranking.py     ranks messages by words and by what surrounds them
    meaning.py     compares meanings, with the sentence encoder of the search for tools
    encoding.py    has the encoder read the messages of searched chats, in the background
    neighbourhood.py  reads what the index knows of messages and of those around them
    finder.py      the search itself

Decision 0039 has the reasons and the figures. `nekro_core.store.search_index` describes the tables.
"""
