"""Documents in the database pass the same tests as those in files."""

from collections.abc import Awaitable, Callable

import pytest

from nekro_core.store import Store
from nekro_core.store.documents import DatabaseDocuments
from nekro_core.system.documents import DocumentStore
from tests.store.conftest import Clock
from tests.system.document_store_contract import CHECKS


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_the_database_passes_the_contract(
    store: Store, clock: Clock, check: Callable[[DocumentStore], Awaitable[None]]
) -> None:
    documents = DatabaseDocuments(store.documents._database, clock=clock, secret={"secrets.toml"})
    await check(documents)


async def test_the_time_of_a_revision_is_stored(store: Store, clock: Clock) -> None:
    first = await store.documents.write("conduct.toml", "a = 1\n", expected=None)
    clock.now += 60
    await store.documents.write("conduct.toml", "a = 2\n", expected=first)
    newest = await store.documents.revisions("conduct.toml")
    assert [one.saved for one in newest] == [1_060.0, 1_000.0]
