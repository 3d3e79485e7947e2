"""Remembers what was said: the search of messages, notes, summaries of earlier messages, and
documents to look things up in. What was said in one chat never reaches another one, unless an
operator links the two."""
