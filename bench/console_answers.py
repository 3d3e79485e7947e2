"""Measures how fast the running bot answers the requests for the console's lists over its HTTP API.
This includes the check of the login, the query and the JSON."""

import time
from pathlib import Path
from typing import Any

import anyio
import httpx

from bench.console_bot import measured_bot
from bench.figure import Figure, p50_and_p95

_ROUNDS, _FEW = 30, 5
_WARM_UP = 2
_BETWEEN_S = 0.02
"""Pause between two requests. During the pause the bot's own tasks run, as they do between the
clicks of a person."""
_TARGET_MS = 100.0
_DAY_S = 86_400.0
_BUSIEST = "telegram-group_10000"
_FLOOR = "/logs/level"


async def answer_figures(folder: Path, *, few: bool) -> list[Figure]:
    """The p50 and p95 of each list of a bot whose data are in ``folder / "data"``. The baseline is
    the answer to a query that reads nothing at all."""
    rounds = _FEW if few else _ROUNDS
    found = []
    async with measured_bot(folder) as bot:
        headers = {"Authorization": f"Bearer {bot.process.token}"}
        address = f"{bot.process.address}/api/v1/operator"
        async with httpx.AsyncClient(
            base_url=address, headers=headers, trust_env=False, timeout=60
        ) as client:
            floor = p50_and_p95(await _samples(client, _FLOOR, {}, rounds))[1]
            for path, parameters in _lists(time.time()).items():
                p50, p95 = p50_and_p95(await _samples(client, path, parameters, rounds))
                found.append(
                    Figure(
                        name=f"answer {path}", unit="ms", p50=p50, p95=p95, floor=floor,
                        floor_name=f"an answer that reads nothing ({_FLOOR}), p95",
                        target=_TARGET_MS,
                    )
                )  # fmt: skip
    return found


def _lists(now: float) -> dict[str, dict[str, Any]]:
    """Return the lists that the pages show, with the parameters of their requests."""
    chat = {"chat_key": _BUSIEST}
    year = {"since": now - 365 * _DAY_S, "until": now}
    return {
        "/chats/newest": {},
        "/chats/history": chat,
        "/chats/members": chat,
        "/chats/search": {"text": "library"},
        "/turns/list": {},
        "/turns/choices": {},
        "/undelivered/newest": {},
        "/undelivered/count": {},
        "/requests/listed": {},
        "/timers/all": {},
        "/statistics/today": {},
        "/statistics/series": {"period": "day", **year},
        "/statistics/ranking": {"dimension": "chat", **year},
        "/audit/newest": {},
        "/logs/newest": {},
        "/plugins/every": {},
        "/platforms/accounts": {},
        "/settings/listed": {},
        "/finder/find": {"text": "library"},
    }


async def _samples(
    client: httpx.AsyncClient, path: str, parameters: dict[str, Any], rounds: int
) -> list[float]:
    samples = []
    for number in range(_WARM_UP + rounds):
        begun = time.perf_counter()
        answer = await client.get(path, params=parameters)
        took = (time.perf_counter() - begun) * 1e3
        answer.raise_for_status()
        if number >= _WARM_UP:
            samples.append(took)
        await anyio.sleep(_BETWEEN_S)
    return samples
