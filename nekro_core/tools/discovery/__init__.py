"""Searches for the tools that fit a request, and lists the tools that a prompt does not show.

::

    words.py      splits texts of three languages into comparable words
    lexicon.py    the concepts of words; concepts.txt lists some hundreds of concepts
    phonetics.py  sound keys that match katakana with English
    similarity.py how similar a query and a tool are in meaning, by a sentence encoder
    encoder_worker.py  the program in which the encoder runs
    index.py      searches tools by names, words, concepts and similarity
    summaries.py  the lines of a prompt that list deferred tools
    search.py     the deferred tools of a set, and their search index

The code has no rules for particular tools. A tool is ranked by its name, its description and the
lexicon, which has the topics of chats.
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
from nekro_core.tools.discovery.similarity import (
    VECTOR_NUMBERS,
    EncodedTexts,
    SentenceVectors,
    TextSimilarity,
)
from nekro_core.tools.discovery.summaries import brief_of, deferred_lines, estimate_tool_tokens

__all__ = [
    "SEARCH",
    "SEARCH_OWNER",
    "VECTOR_NUMBERS",
    "DeferredTools",
    "EncodedTexts",
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
