"""Starts one mail server for all tests of a module. Each test has mailboxes that no other test
uses."""

import itertools
from collections.abc import Iterator

import pytest

from tests.peers.mail import MailServer, missing

_numbers = itertools.count(1)
_PEOPLE = 60


@pytest.fixture(scope="module")
def server() -> Iterator[MailServer]:
    if why := missing():
        pytest.skip(why)
    people = [
        f"{name}{number}@example.test"
        for number in range(1, _PEOPLE)
        for name in ("bot", "ann", "bo")
    ]
    server = MailServer(*people)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def people() -> tuple[str, str, str]:
    """The addresses of the bot, Ann and Bo."""
    number = next(_numbers)
    return f"bot{number}@example.test", f"ann{number}@example.test", f"bo{number}@example.test"
