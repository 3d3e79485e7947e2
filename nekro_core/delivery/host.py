"""What the bot offers an adapter: its only way to anything behind the api."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

from nekro_core.chat import ChatKey, ChatMessage, Media, Record, Segments

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


class Host(Protocol):
    """The bot, as an adapter sees it."""

    data_dir: Path
    settings: Mapping[str, Any]
    """NoneBot's configuration, lower-case names."""
    media: MediaKeeper
    links: MediaLinker

    async def accept(self, message: ChatMessage) -> None:
        """Take an inbound message. Returns once it is stored, or known as a duplicate.

        The order of calls for one chat is the order kept: a message is stamped before the first
        await.

        Args:
            message: The message.

        Raises:
            StoreUnavailable: Nothing was kept.
        """

    async def recall(self, chat_key: ChatKey, message_id: str) -> None:
        """Record that a message was taken back on the platform: it leaves the prompt.

        Args:
            chat_key: The chat.
            message_id: The platform's id of the message.
        """

    async def revise(
        self, chat_key: ChatKey, message_id: str, user_id: str, said: Segments
    ) -> None:
        """Record that its author changed a message: from now on the prompt has the new words.

        What it answered and its media stay, and nobody is woken. Nothing happens where the message
        is not known, or is another person's.

        Args:
            chat_key: The chat.
            message_id: The platform's id of the message.
            user_id: The platform's id of who changed it.
            said: The new words.

        Raises:
            StoreUnavailable: Nothing was kept.
        """

    async def instance_of(self, adapter: str, account: str) -> str:
        """Get the instance part of an account's chat keys; made at first sight, then never moves.

        Args:
            adapter: The adapter's name.
            account: The platform's id of our account.

        Returns:
            The instance.
        """

    async def known_since(self, adapter: str, account: str) -> float | None:
        """Tell when `instance_of` was first asked for an account. What was said since then, the bot
        should have heard.

        Args:
            adapter: The adapter's name.
            account: The platform's id of our account.

        Returns:
            Seconds since 1970; None for a new account.
        """

    async def account_of(self, instance: str) -> str | None:
        """Get the platform account that is bound to an instance.

        Args:
            instance: The instance part of a chat key.

        Returns:
            The platform's id; None where none is bound.
        """

    def online(self) -> None:
        """An account can be reached, again or for the first time: what waits for one is sent now.
        Called once the account is bound to its instance."""

    async def records(self, chat_key: ChatKey, *, after: int = 0, limit: int = 200) -> list[Record]:
        """Get lines of a chat's history.

        Args:
            chat_key: The chat.
            after: Only lines whose ``seq`` is greater; 0 for the newest ``limit`` lines.
            limit: How many at most.

        Returns:
            The lines, oldest first.
        """

    async def newest_times(self, instance: str) -> Mapping[ChatKey, float]:
        """Tell when each chat was last heard, to fetch what was missed since.

        Args:
            instance: The instance part of chat keys.

        Returns:
            For each chat the time of its newest message, in seconds since 1970.
        """
