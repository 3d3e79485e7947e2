"""Makes replies for the scripted model that call functions natively."""

import json
from typing import Any

from nekro_core.agent.settings import AgentSettings
from nekro_core.llm.model import ChatRequest, FunctionCall, TextPart
from nekro_core.llm.scripted import ScriptedAnswer

TOOLS_MODE = AgentSettings(mode="tools")


def call(name: str, call_id: str = "", **arguments: Any) -> FunctionCall:
    """Make one call of a function with these arguments."""
    return FunctionCall(
        call_id=call_id or f"id_{name}",
        name=name,
        written=json.dumps(arguments),
        arguments=arguments,
    )


def calls(*made: FunctionCall, prose: str = "") -> ScriptedAnswer:
    """Make a reply with these calls. ``prose`` is the text before them."""
    return ScriptedAnswer(chunks=[prose] if prose else [], calls=made)


def say(text: str) -> ScriptedAnswer:
    """Make a reply that calls `send_channel_message`."""
    return calls(call("send_channel_message", text=text))


NOTHING = ScriptedAnswer(chunks=[])
"""An empty reply: the model has no more to say."""


def results_of(request: ChatRequest) -> dict[str, str]:
    """Return the result of each call in the request, by the call's id. Each line of a result must
    begin with the mark ``> ``, except the line of an error. The marks are removed."""
    return {
        message.answers: unmarked(
            "".join(part.text for part in message.parts if isinstance(part, TextPart))
        )
        for message in request.messages
        if message.role == "tool"
    }


def unmarked(answer: str) -> str:
    """Return the result of a call without the marks. The line of an error has no mark and comes
    first."""
    head, *rest = answer.split("\n")
    if not head.startswith("[error] "):
        head, rest = "", [head, *rest]
    assert all(line.startswith("> ") for line in rest), answer
    return "\n".join(filter(None, [head, *(line.removeprefix("> ") for line in rest)]))
