"""One gateway at a time, the leader, does the work that belongs to no chat."""

import anyio

from nekro_core.app.cluster.leadership import Leadership
from nekro_core.cluster.leases import LocalLeases


async def until_leads(leadership: Leadership) -> None:
    with anyio.fail_after(30):
        while not leadership():
            await anyio.sleep(0.005)


async def test_another_gateway_becomes_the_leader_when_the_leading_one_ends() -> None:
    leases = LocalLeases()
    first, second = (Leadership(leases, name, again_s=0.01) for name in ("one", "two"))
    async with anyio.create_task_group() as tasks:
        async with anyio.create_task_group() as of_first:
            of_first.start_soon(first.live)
            await until_leads(first)
            tasks.start_soon(second.live)
            await anyio.sleep(0.05)
            assert not second()
            of_first.cancel_scope.cancel()
        assert not first()
        await until_leads(second)
        tasks.cancel_scope.cancel()
