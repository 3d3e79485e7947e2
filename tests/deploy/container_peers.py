"""What containers of the bot talk to: a model and OneBot accounts, which run on this machine."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import SocketAttribute, SocketStream

from tests.deploy.local_images import Docker
from tests.e2e.whole_bot import TOKEN, fence, text_of
from tests.peers.onebot_v11 import OneBotPeer
from tests.peers.scripted_model import Asked, ScriptedModelServer

ANSWER_S = 60.0
"""The longest time that a test waits for an answer."""


def reply(asked: Asked) -> str:
    """The model's reply: it answers the newest question, and says which older ones it was shown.
    ``nekro doctor`` asks something else."""
    told = "\n".join(text_of(message) for message in asked.messages if message["role"] == "user")
    numbers = re.findall(r"question-(\d+)", told)
    if not numbers:
        return "hello"
    older = sorted({each for each in numbers if each != numbers[-1]}, key=int)
    return fence(f"send_channel_message('answer-{numbers[-1]} after {' '.join(older)}')")


@asynccontextmanager
async def model_on_a_bridge(docker: Docker, network: str) -> AsyncIterator[str]:
    """Run the model on this machine, and let the containers reach it at this machine's address in a
    network of this name, which is made. Yields the model's URL."""
    docker.run("docker", "network", "create", network)
    inspected = docker.run("docker", "network", "inspect", network)
    address = json.loads(inspected)[0]["IPAM"]["Config"][0]["Gateway"]
    async with (
        ScriptedModelServer(reply) as model,
        await anyio.create_tcp_listener(local_host=address) as listener,
        anyio.create_task_group() as tasks,
    ):
        target = int(model.base_url.split(":")[2].split("/")[0])

        async def carry(near: SocketStream) -> None:
            far = await anyio.connect_tcp("127.0.0.1", target)
            async with near, far, anyio.create_task_group() as both:
                both.start_soon(_copy, near, far)
                both.start_soon(_copy, far, near)

        tasks.start_soon(listener.serve, carry)
        try:
            yield f"http://{address}:{listener.extra(SocketAttribute.local_port)}/v1"
        finally:
            docker.run("docker", "network", "rm", network)
        tasks.cancel_scope.cancel()


async def _copy(source: SocketStream, target: SocketStream) -> None:
    try:
        while True:
            await target.send(await source.receive())
    except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
        await target.aclose()


async def ask(peer: OneBotPeer, group: int, number: int, within: float = ANSWER_S) -> str:
    """Ask a question in a group, and return the only answer to it."""
    before = len(peer.sends)
    await peer.say_in_group(group, 10001, f"question-{number}", at_me=True)
    await peer.until(lambda: len(peer.sends) > before, within)
    (answer,) = peer.sends[before:]
    return answer.text


def account(name: str, port: int) -> OneBotPeer:
    """An account that connects to the container with this port on 127.0.0.1."""
    return OneBotPeer(name, TOKEN, f"ws://127.0.0.1:{port}/onebot/v11/ws")
