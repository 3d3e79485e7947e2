"""Sends notices of the bot to a chat."""

from collections.abc import Callable, Sequence

from loguru import logger

from nekro_core.chat import Author, ChatKey, Record, Text
from nekro_core.chat.catalogue import Catalogue, language_of
from nekro_core.delivery.errors import DeliveryError
from nekro_core.plugins.authoring.services import MessageSender
from nekro_core.store import StoreError


class NoticeSender:
    """Sends sentences of the catalogue in the language that ``language`` returns. If ``language``
    returns an empty text, the sentences are in the language of the people who wrote last."""

    def __init__(
        self,
        outgoing: MessageSender,
        catalogue: Catalogue,
        language: Callable[[], str] = lambda: "",
    ) -> None:
        self._outgoing = outgoing
        self._catalogue = catalogue
        self._language = language

    async def send(
        self,
        chat_key: ChatKey,
        records: Sequence[Record],
        key: str,
        *,
        run_id: str = "",
        **values: object,
    ) -> None:
        """Send a sentence in the language of ``records``. A failure is logged and not raised."""
        notice = self.text(records, key, **values)
        try:
            await self._outgoing.send(chat_key, (Text(notice),), run_id=run_id)
        except (DeliveryError, StoreError) as error:
            logger.error("{}: the notice {!r} was not sent: {}", chat_key, notice, error)

    def text(self, records: Sequence[Record], key: str, **values: object) -> str:
        """Return a sentence in the language of ``records``."""
        texts = [
            segment.text
            for record in records[-5:]
            if record.author is Author.PERSON
            for segment in record.segments
            if isinstance(segment, Text)
        ]
        return self._catalogue.say(key, self._language() or language_of(texts), **values)
