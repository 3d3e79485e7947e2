"""Fills the test bot with models, personas, MCP servers and network rules."""

import time

from pydantic import SecretStr

from nekro_core.app.app import App
from nekro_core.chat import ChatKey, ChatMessage, Sender, Text
from nekro_core.operator.roles import AccessRole, Actor, RequestOrigin
from nekro_core.tools.mcp_client import McpServerEntry
from tests.tools.mcp_client.world import peer

EVIL = "<img src=x onerror=alert(1)>"
CHAT = "fake-group_30003"
OTTO = Actor(name="otto", role=AccessRole.OWNER, origin=RequestOrigin.PAGE)


async def fill_models(app: App) -> None:
    """Add the models, personas, MCP servers and network rules."""
    models = app.operations.models
    fast = {"base_url": "https://api.openai.com/v1", "model": "gpt-4o-mini", "vision": True}
    await models.put(
        OTTO,
        group="fast",
        fields={**fast, "context_tokens": 128_000},
        api_key=SecretStr("sk-nobody-may-see-this"),
    )
    odd = {"base_url": "http://127.0.0.1:9/v1", "model": EVIL}
    await models.put(OTTO, group="odd", fields={**odd, "prompt_price": 2, "completion_price": 8})
    await app.host.accept(
        ChatMessage(
            chat_key=ChatKey.parse(CHAT),
            message_id="models-1",
            sender=Sender("10001", EVIL),
            segments=(Text("Who are you?"),),
            time=time.time(),
            account="bot",
        )
    )
    personas = app.operations.personas
    await personas.save(OTTO, persona="Mei", text="You are Mei.\nYou like tea.", revision=0)
    await personas.save(
        OTTO,
        persona="Mei",
        text=f"You are Mei.\nYou like green tea.\n{EVIL}",
        revision=1,
        note="more precise",
    )
    await personas.save(OTTO, persona="Captain", text="You are an old captain.", revision=0)
    await personas.save(OTTO, persona="Old one", text="You are gone.", revision=0)
    await personas.remove(OTTO, persona="Old one")
    mcp = app.operations.mcp
    entry = McpServerEntry(**peer(env={"API_TOKEN": "${API_TOKEN}"}))
    secrets = {"API_TOKEN": SecretStr("a-token-that-nobody-may-see")}
    await mcp.put(OTTO, server="peer", entry=entry, secrets=secrets)
    await mcp.put(OTTO, server="broken", entry=McpServerEntry(command="no-such-program"))
    await mcp.put(OTTO, server="resting", entry=McpServerEntry(**peer(disabled=True)))
    network = app.operations.network
    await network.put(OTTO, owner=CHAT, allow=["example.org", "*.example.net"])
    await network.put(OTTO, owner=CHAT, box="work", private=["nas.lan:80"], allow=["nas.lan:80"])
    network._egress.refusals.add(CHAT, "secret.example:443", "no rule allows it")
