"""How adapters and plugins keep received media, and make links to it."""

from typing import Literal, Protocol

from nekro_core.chat import ChatKey, Media

Expected = Literal["", "image", "audio", "video", "file"]
"""What a medium must turn out to be; ``file`` is anything, an empty text what its name claims."""


class MediaKeeper(Protocol):
    """Bounded, sniffed storage of what a chat received. What cannot be had, or is not what was
    expected, comes back as a `Media` with a ``problem`` in words; nothing is raised for it."""

    async def keep_bytes(
        self, chat_key: ChatKey, data: bytes, *, name: str = "", expect: Expected = ""
    ) -> Media:
        """Store bytes that are already here.

        Args:
            chat_key: The chat that received them.
            data: The bytes.
            name: What people see.
            expect: What it must turn out to be; empty for what its name claims.

        Returns:
            The kept medium, or one with a ``problem``.
        """

    async def keep_url(
        self, chat_key: ChatKey, url: str, *, name: str = "", expect: Expected = ""
    ) -> Media:
        """Fetch an address and store what is there.

        Args:
            chat_key: The chat that received it.
            url: ``http(s)``, ``data:`` or ``base64://``.
            name: What people see.
            expect: As for `keep_bytes`.

        Returns:
            The kept medium, or one with a ``problem``.
        """


class MediaLinker(Protocol):
    """Makes links to kept media: signed, short-lived, answered by the bot's own web server."""

    def link(self, chat_key: ChatKey, media: Media, *, address: str = "") -> str:
        """Make a link to a medium of the chat.

        Args:
            chat_key: The chat that the medium belongs to.
            media: A medium that the bot keeps.
            address: How whoever gets it reaches the bot's web server (``http://10.0.0.5:8080``);
                empty for the operator's setting.

        Returns:
            The link; empty where there is no address, or the medium is none that we keep.
        """
