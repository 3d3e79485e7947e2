"""What people read, in the languages of the people: one table of sentences for each."""

from nekro_core.chat.catalogue.catalogue import (
    LANGUAGES,
    Catalogue,
    language_of,
    preferred,
)

__all__ = ["LANGUAGES", "Catalogue", "language_of", "preferred"]
