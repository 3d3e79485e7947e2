"""An adapter tries again when the store fails. A full disk loses no message. If the store always
refuses a message, the adapter gives this message up."""

import pytest

from nekro_core.chat import ChatMessage
from nekro_core.delivery.adapter_tasks import accept_patiently
from nekro_core.store import StoreError, StoreUnavailable

from .conftest import GROUP
from .fakes import message

PAUSES = (0.0, 0.001)


class Store:
    def __init__(self, error: Exception, times: int) -> None:
        self.error, self.left = error, times
        self.stored: list[ChatMessage] = []

    async def accept(self, said: ChatMessage) -> None:
        if self.left:
            self.left -= 1
            raise self.error
        self.stored.append(said)


async def test_a_disk_that_is_full_for_a_long_time_loses_no_message() -> None:
    store, said = Store(StoreUnavailable("full"), 20), message(GROUP)
    await accept_patiently(store.accept, said, pauses=PAUSES)
    assert store.stored == [said]


async def test_a_message_that_the_store_keeps_refusing_is_given_up() -> None:
    store = Store(StoreError("the database refused a value"), 20)
    with pytest.raises(StoreError):
        await accept_patiently(store.accept, message(GROUP), pauses=PAUSES)
    assert store.left == 17
    store.left = 2
    await accept_patiently(store.accept, message(GROUP), pauses=PAUSES)
    assert len(store.stored) == 1
