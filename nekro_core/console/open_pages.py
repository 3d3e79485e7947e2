"""Limits how many pages of the console one person has open."""

from collections import Counter

from nicegui import Client

MAX_PAGES = 100
"""Maximum number of open pages of one person. Each page takes 1 to 2 MB of memory while a browser
shows it, and for up to 60 s afterwards."""


class OpenPages:
    """Counts the open pages of each person."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()

    def admit(self, person_id: int, client: Client) -> bool:
        """Count a page until it is deleted. Returns False if the person has too many open pages."""
        if self._counts[person_id] >= MAX_PAGES:
            return False
        self._counts[person_id] += 1
        client.on_delete(lambda: self._closed(person_id))
        return True

    def _closed(self, person_id: int) -> None:
        self._counts[person_id] -= 1
        if self._counts[person_id] <= 0:
            del self._counts[person_id]
