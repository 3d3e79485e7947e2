"""The sentences of the bot that people read, with one table for each language."""

from nekro_core.chat.catalogue.catalogue import (
    LANGUAGES,
    Catalogue,
    language_of,
    preferred,
)

__all__ = ["LANGUAGES", "Catalogue", "language_of", "preferred"]
