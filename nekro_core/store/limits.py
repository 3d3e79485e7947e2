"""Limits of columns."""

MAX_ID = 255
"""Maximum length of a platform's id. It is the limit of a unique VARCHAR column on all databases
that we know."""
