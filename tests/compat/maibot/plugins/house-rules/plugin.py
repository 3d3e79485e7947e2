"""Hooks at each stage: received messages, model requests, model replies and sent messages."""

import asyncio

from maibot_sdk import EventHandler, HookHandler, MaiBotPlugin
from maibot_sdk.types import ErrorPolicy, EventType, HookMode, HookOrder


class HouseRules(MaiBotPlugin):
    async def on_load(self) -> None:
        self.seen = []
        self.sent = []
        self.started = asyncio.Event()
        self.ticks = 0
        self.clock = asyncio.create_task(self._tick())

    async def on_unload(self) -> None:
        self.clock.cancel()

    async def on_config_update(self, scope, config_data, version) -> None:
        pass

    async def _tick(self) -> None:
        while True:
            self.ticks += 1
            await asyncio.sleep(0.05)

    @EventHandler("started", event_type=EventType.ON_START)
    async def handle_start(self, **kwargs):
        self.started.set()

    @HookHandler("chat.receive.before_process", order=HookOrder.EARLY)
    async def drop_spam(self, message=None, **kwargs):
        if "spam" in message["processed_plain_text"]:
            return {"action": "abort"}
        return None

    @HookHandler("chat.receive.after_process", error_policy=ErrorPolicy.LOG)
    async def spell_out(self, message=None, **kwargs):
        text = message["processed_plain_text"]
        if "brb" in text:
            changed = {**message, "processed_plain_text": text.replace("brb", "be right back")}
            return {"action": "continue", "modified_kwargs": {"message": changed}}
        return None

    @HookHandler("chat.receive.after_process", order=HookOrder.LATE, mode=HookMode.OBSERVE)
    async def note(self, message=None, **kwargs):
        self.seen.append(message["processed_plain_text"])

    @HookHandler("maisaka.planner.before_request")
    async def remind(self, messages=None, **kwargs):
        first, *rest = messages
        told = {**first, "content": first["content"] + "\n\nHOUSE RULE: be kind."}
        return {"modified_kwargs": {"messages": [told, *rest]}}

    @HookHandler("maisaka.planner.after_response")
    async def soften(self, response="", **kwargs):
        return {"modified_kwargs": {"response": response.replace("damn", "dear")}}

    @HookHandler("send_service.before_send")
    async def sign(self, message=None, **kwargs):
        text = message["processed_plain_text"]
        if "secret" in text:
            return {"action": "abort"}
        signed = [*message["raw_message"], {"type": "text", "data": " ♪"}]
        return {"modified_kwargs": {"message": {**message, "raw_message": signed}}}

    @HookHandler("send_service.after_send", mode=HookMode.OBSERVE)
    async def count(self, message=None, sent=False, **kwargs):
        self.sent.append((message["processed_plain_text"], sent))

    @HookHandler("chat.receive.before_process", name="fails", order=HookOrder.LATE)
    async def fails(self, **kwargs):
        raise RuntimeError("a hook that always fails")


def create_plugin():
    return HouseRules()
