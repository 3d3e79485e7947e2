"""Defines two protocols: one stores the media that a chat received, the other makes links to
them."""

from typing import Literal, Protocol

from nekro_core.chat import ChatKey, Media

Expected = Literal["", "image", "audio", "video", "file"]
"""The kind that a medium must have: ``file`` for any kind, empty for the kind that its file name
suggests."""


class MediaKeeper(Protocol):
    """Stores the media that a chat received, within size limits, and detects their types. A medium
    that cannot be fetched, or is not of the expected kind, is returned as a `Media` whose
    ``problem`` says why. No error is raised."""

    async def keep_bytes(
        self, chat_key: ChatKey, data: bytes, *, name: str = "", expect: Expected = ""
    ) -> Media:
        """Store bytes that are already in memory.

        Args:
            chat_key: The chat that received the bytes.
            data: The bytes.
            name: The file name that people see.
            expect: The kind that the medium must have; empty for the kind that its name suggests.

        Returns:
            The stored medium, or a medium with a ``problem``.
        """

    async def keep_url(
        self, chat_key: ChatKey, url: str, *, name: str = "", expect: Expected = ""
    ) -> Media:
        """Fetch a URL and store its content.

        Args:
            chat_key: The chat that received the URL.
            url: ``http(s)``, ``data:`` or ``base64://``.
            name: The file name that people see.
            expect: As for `keep_bytes`.

        Returns:
            The stored medium, or a medium with a ``problem``.
        """


class MediaLinker(Protocol):
    """Makes signed, short-lived links to stored media. The bot's web server serves the files."""

    def link(self, chat_key: ChatKey, media: Media, *, address: str = "") -> str:
        """Make a link to a medium of the chat.

        Args:
            chat_key: The chat that the medium belongs to.
            media: A medium that the bot has stored.
            address: The base address at which the recipient reaches the bot's web server
                (``http://10.0.0.5:8080``); empty for the operator's setting.

        Returns:
            The link; empty if no address is given or set, or if the bot has not stored the medium.
        """
