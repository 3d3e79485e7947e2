"""Defines what differs between the protocols of model providers: address, headers, request body and
the events of a response. Retries, limits of time and the assembly of the reply are the same for all
(`nekro_core.llm.http_model`)."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Protocol, Self

from nekro_core.llm.events import Event
from nekro_core.llm.model import ChatRequest, ModelProfile


class ModelProtocol(StrEnum):
    """The protocols in which a model can be asked."""

    CHAT = "chat"
    """Chat Completions of OpenAI, which nearly every provider and local server offers."""
    RESPONSES = "responses"
    """Responses of OpenAI."""
    ANTHROPIC = "anthropic"
    """Messages of Anthropic."""


EventReader = Callable[[dict[str, Any]], list[Event]]
"""A function that returns the events of one JSON object of a stream. It may remember earlier
objects of the stream."""


class WireFormat(Protocol):
    """One protocol, with the optional fields that an endpoint accepts."""

    @property
    def path(self) -> str:
        """The path of requests, relative to the address of the API."""

    @property
    def takes_stop(self) -> bool:
        """True if requests can name texts at which the reply ends."""

    def headers(self, key: str) -> dict[str, str]:
        """Return the headers of every request. ``key`` may be empty."""

    def encode(
        self, request: ChatRequest, profile: ModelProfile, extra_body: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the JSON body of a request, with the fields ``extra_body`` of the settings."""

    def reader(self) -> EventReader:
        """Return a reader for the events of one response."""

    def whole(self, reply: dict[str, Any]) -> list[Event]:
        """Return the events of a reply that is one JSON object instead of a stream."""

    def without(self, complaint: str) -> Self | None:
        """Return the format to try after a refusal, without the refused field. ``complaint`` is the
        endpoint's text, which names this field. Returns None if the endpoint refused the request
        for another reason."""
