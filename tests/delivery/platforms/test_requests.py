"""Friend and group requests wait for an operator, who answers them."""

from pathlib import Path
from typing import Any

import pytest

from nekro_core.delivery.adapter import Adapter
from nekro_core.delivery.contact_request import (
    ContactRequest,
    ContactRequestKind,
    ContactRequestState,
    request_id_of,
)
from nekro_core.delivery.errors import CannotDo
from nekro_core.delivery.platforms.requests import MOST_KEPT, TEXT_LENGTH, ContactRequests


class Gate:
    """An adapter that answers requests. Only the methods that the tests call are implemented."""

    name = "gate"
    refuses = ""

    def unused(self) -> None:
        raise AssertionError("not part of these tests")

    capabilities = send = own_accounts = start = aclose = unused

    def __init__(self) -> None:
        self.answered: list[tuple[str, bool, str]] = []

    async def answer_request(self, request: ContactRequest, *, approve: bool, reason: str) -> None:
        if self.refuses:
            raise CannotDo(self.refuses)
        self.answered.append((request.handle, approve, reason))


def request(number: int, **more: Any) -> ContactRequest:
    fields = {
        "request_id": request_id_of("gate", "1", str(number)),
        "adapter": "gate",
        "account": "1",
        "kind": ContactRequestKind.FRIEND,
        "user_id": f"u{number}",
        "time": float(number),
        "handle": str(number),
    }
    return ContactRequest(**(fields | more))


def opened(folder: Path, *adapters: Any) -> ContactRequests:
    known: dict[str, Adapter] = {each.name: each for each in adapters}
    return ContactRequests(folder, known, clock=lambda: 1000.0)


async def test_a_request_can_be_dismissed_and_reopened_without_an_answer_to_the_platform(
    tmp_path: Path,
) -> None:
    gate = Gate()
    requests = opened(tmp_path, gate)
    await requests.receive(request(1))
    identity = request(1).request_id
    with pytest.raises(CannotDo, match="is open, expected dismissed"):
        await requests.reopen(identity)
    await requests.dismiss(identity)
    assert opened(tmp_path, gate).listed() == []
    assert (await requests.reopen(identity)).answered_at is None
    assert [each.request_id for each in requests.listed()] == [identity]
    assert gate.answered == []
    assert requests.platforms() == {"gate": True}
    with pytest.raises(CannotDo, match="there is no request 'nope'"):
        await requests.dismiss("nope")


async def test_a_request_waits_over_a_restart_and_is_answered_once(tmp_path: Path) -> None:
    gate = Gate()
    requests = opened(tmp_path, gate)
    for number in (1, 2, 3, 2):
        await requests.receive(request(number, text="x" * 1000))
    again = opened(tmp_path, gate)
    newest = again.listed()
    assert [each.user_id for each in newest] == ["u3", "u2", "u1"]
    assert len(newest[0].text) == TEXT_LENGTH
    assert [each.user_id for each in again.listed(before=newest[0].request_id, limit=1)] == ["u2"]

    approved = await again.answer(newest[0].request_id, approve=True)
    assert (approved.state, approved.answered_at) == (ContactRequestState.APPROVED, 1000.0)
    refused = await again.answer(newest[1].request_id, approve=False, reason="who are you?")
    assert refused.state is ContactRequestState.REFUSED
    assert gate.answered == [("3", True, ""), ("2", False, "who are you?")]
    with pytest.raises(CannotDo, match="approved already"):
        await again.answer(newest[0].request_id, approve=False)
    with pytest.raises(CannotDo, match="no request"):
        await again.answer("nonsense", approve=True)
    assert [each.user_id for each in opened(tmp_path).listed()] == ["u1"]


async def test_an_answer_that_does_not_reach_the_platform_leaves_the_request_open(
    tmp_path: Path,
) -> None:
    gate = Gate()
    requests = opened(tmp_path, gate)
    await requests.receive(request(1))
    gate.refuses = "the flag has expired"
    with pytest.raises(CannotDo, match="expired"):
        await requests.answer(request(1).request_id, approve=True)
    (still,) = requests.listed()
    assert still.problem == "the flag has expired"
    with pytest.raises(CannotDo, match="cannot answer requests now"):
        await opened(tmp_path).answer(still.request_id, approve=True)


async def test_the_number_of_requests_is_limited_and_answered_ones_are_dropped_first(
    tmp_path: Path,
) -> None:
    requests = opened(tmp_path, Gate())
    await requests.receive(request(1))
    await requests.receive(request(2))
    await requests.answer(request(2).request_id, approve=True)
    requests._known |= {
        each.request_id: each for each in (request(n) for n in range(10, 8 + MOST_KEPT))
    }
    await requests.receive(request(5000))
    assert not requests.listed([ContactRequestState.APPROVED])
    everything = requests.listed(limit=5000)
    assert (len(everything), everything[-1].user_id) == (MOST_KEPT, "u1")


async def test_the_requests_of_an_erased_person_are_deleted(tmp_path: Path) -> None:
    requests = opened(tmp_path)
    await requests.receive(request(1))
    await requests.receive(request(2))
    assert await requests.forget([("gate", "u1"), ("other", "u2")]) == 1
    assert [each.user_id for each in opened(tmp_path).listed()] == ["u2"]


def test_a_file_that_cannot_be_read_is_renamed_and_not_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "platform_requests.json"
    file.write_text("nonsense")
    assert opened(tmp_path).listed() == []
    assert (tmp_path / "platform_requests.unreadable.json").read_text() == "nonsense"
