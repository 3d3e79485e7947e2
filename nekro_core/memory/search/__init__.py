"""Finds messages of a chat.

::

    terms.py       splits a text into comparable terms
    message.py     the terms and facts that the index stores about one message
    segments.py    makes and merges segments of the index
    indexer.py     keeps the index complete, in the background
    dates.py       reads the times that a question or a filter names
    question.py    splits a question into terms, related terms and times
    word_hits.py   finds the messages that have a term, in the index and in the newest messages
    ranking.py     ranks messages by their words and by the words of the messages around them
    meaning.py     compares meanings, with the sentence encoder of the search for tools
    encoding.py    encodes the messages of searched chats, in the background
    neighbourhood.py  reads from the index what it stores about messages and their neighbours
    answers.py     tells what a question asks for, and what a message has that may answer it
    features.py    computes the numbers from which the final order is made, with learnt weights
    reranking.py   orders the messages with the best words by these numbers
    similar.py     finds the messages that are most similar to the question
    fit.py         tells whether what was found fits, or is only the nearest
    finder.py      the search: combines all of the above

Decision 0039 has the reasons and the figures. `nekro_core.store.search_index` describes the tables.
"""
