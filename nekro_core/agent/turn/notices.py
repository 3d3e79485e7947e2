"""Sentences of our own to a chat."""

from collections.abc import Sequence

from loguru import logger

from nekro_core.agent.turn.ports import Ports
from nekro_core.chat import Author, ChatKey, Record, Text
from nekro_core.chat.catalogue import language_of
from nekro_core.delivery.errors import DeliveryError
from nekro_core.store import StoreError


async def send_notice(
    ports: Ports,
    chat_key: ChatKey,
    records: Sequence[Record],
    key: str,
    *,
    run_id: str = "",
    **values: object,
) -> None:
    """Send a sentence of the catalogue in the language of the chat. What fails is logged."""
    said = notice_text(ports, records, key, **values)
    try:
        await ports.outbox.send(chat_key, (Text(said),), run_id=run_id)
    except (DeliveryError, StoreError) as error:
        logger.error("{} could not be told {!r}: {}", chat_key, said, error)


def notice_text(ports: Ports, records: Sequence[Record], key: str, **values: object) -> str:
    """A sentence of the catalogue in the language that people spoke in these records."""
    texts = [
        segment.text
        for record in records[-5:]
        if record.author is Author.PERSON
        for segment in record.segments
        if isinstance(segment, Text)
    ]
    return ports.catalogue.say(key, ports.settings.language or language_of(texts), **values)
