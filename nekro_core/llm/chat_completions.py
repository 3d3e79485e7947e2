"""Implements OpenAI's protocol "Chat Completions", which nearly every provider and local server
offers.

Gemini's compatible endpoint is one of them. Source: the API reference of OpenAI.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from nekro_core.llm.dialect import Dialect, encode_request
from nekro_core.llm.events import Event, parse_chunk
from nekro_core.llm.model import ChatRequest, ModelProfile
from nekro_core.llm.wire_format import EventReader


@dataclass(frozen=True, slots=True)
class ChatCompletions:
    """Implements `WireFormat`."""

    dialect: Dialect = field(default_factory=Dialect)
    path: str = "chat/completions"
    takes_stop: bool = True

    def headers(self, key: str) -> dict[str, str]:
        """See `WireFormat.headers`."""
        return {"Authorization": f"Bearer {key or 'none'}"}

    def encode(
        self, request: ChatRequest, profile: ModelProfile, extra_body: Mapping[str, Any]
    ) -> dict[str, Any]:
        """See `WireFormat.encode`."""
        return encode_request(request, profile, self.dialect, extra_body)

    def reader(self) -> EventReader:
        """See `WireFormat.reader`. In this protocol, each object can be read without the earlier
        objects."""
        return parse_chunk

    def whole(self, reply: dict[str, Any]) -> list[Event]:
        """See `WireFormat.whole`."""
        choices = reply.get("choices")
        if isinstance(choices, list):
            for choice in choices:
                if isinstance(choice, dict) and "message" in choice:
                    choice["delta"] = choice.pop("message")
        return parse_chunk(reply)

    def without(self, complaint: str) -> Self | None:
        """See `WireFormat.without`."""
        other = self.dialect.without(complaint)
        return replace(self, dialect=other) if other else None
