"""Searches for the tools that fit a request, and lists the tools that a prompt does not show.

::

    words.py      splits texts of three languages into comparable words
    lexicon.py    the concepts of words, from concepts.txt with some hundreds of them
    phonetics.py  sound keys that match katakana with English
    similarity.py how near a query is to a tool in meaning, by a sentence encoder
    encoder_worker.py  the program in which the encoder runs
    index.py      searches tools by names, words, concepts and nearness
    summaries.py  the lines of a prompt that list deferred tools
    search.py     the deferred tools of a set, and the search over them

The code knows no particular tool. A tool is ranked by its name, its description and the lexicon,
which covers the topics of chats.
"""

from nekro_core.tools.discovery.index import SearchHit, ToolIndex
from nekro_core.tools.discovery.search import (
    SEARCH,
    SEARCH_OWNER,
    DeferredTools,
    deferred_tools_of,
    is_search,
    search_index_of,
)
from nekro_core.tools.discovery.similarity import SentenceVectors, TextSimilarity
from nekro_core.tools.discovery.summaries import brief_of, deferred_lines, estimate_tool_tokens

__all__ = [
    "SEARCH",
    "SEARCH_OWNER",
    "DeferredTools",
    "SearchHit",
    "SentenceVectors",
    "TextSimilarity",
    "ToolIndex",
    "brief_of",
    "deferred_lines",
    "deferred_tools_of",
    "estimate_tool_tokens",
    "is_search",
    "search_index_of",
]
