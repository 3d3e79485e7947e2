"""Remembers, for one step of a turn, the request that was sent and the times of events."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from loguru import logger

from nekro_core.agent.prompt.sources import PromptSources
from nekro_core.agent.shown.recording import PromptDescriber
from nekro_core.llm.model import ChatRequest, PassedModel
from nekro_core.sandbox.box import StatementTime
from nekro_core.store.prompts import PromptPart

_DETAIL = 300
"""Maximum number of characters of a model's error that are stored."""


class StepWatch:
    """Remembers the request of a step as it was sent, and the step's times in milliseconds since
    the step began. ``clock`` is monotonic, ``wall`` returns seconds since 1970."""

    def __init__(
        self, describer: PromptDescriber, clock: Callable[[], float], wall: Callable[[], float]
    ) -> None:
        self._describer = describer
        self._clock = clock
        self._began = clock()
        self._times: dict[str, Any] = {"at": round(wall(), 3)}
        self._sent: tuple[ChatRequest, Mapping[str, Any]] | None = None
        self._run_began = 0.0

    @property
    def sent(self) -> bool:
        """Whether the request was sent."""
        return self._sent is not None

    def of(self, request: ChatRequest) -> ChatRequest:
        """Note that the prompt is ready. Return the request, which will report when it is sent."""
        self._note("made")
        return replace(request, on_sent=self._on_sent)

    def first_token(self) -> None:
        """Note that the first part of the reply has arrived. Later calls do nothing."""
        if "first" not in self._times:
            self._note("first")

    def reply_ended(self) -> None:
        """Note that the whole reply has arrived."""
        self._note("replied")

    def chosen(self, name: str, passed: Sequence[PassedModel]) -> None:
        """Note the name of the group of the model that answers, and why the models before it in the
        chain do not answer. ``name`` is empty if no model of the chain answers."""
        if passed:
            self._times["model"] = name
            self._times["passed"] = [
                [each.name, each.reason.value, each.detail[:_DETAIL], round(each.seconds * 1000, 1)]
                for each in passed
            ]

    def run_began(self) -> None:
        """Note that the code's run has started."""
        self._run_began = self._milliseconds()
        self._note("run")

    def statements(self, timeline: Sequence[StatementTime]) -> None:
        """Note when the statements were sent and had ended."""
        began = self._run_began
        self._times["code"] = [
            [
                each.line,
                round(began + each.sent * 1000, 1),
                None if each.ended is None else round(began + each.ended * 1000, 1),
            ]
            for each in timeline
        ]

    def times(self) -> str:
        """End the step, and return its times as JSON (`nekro_core.store.turn_trace`)."""
        self._note("end")
        return json.dumps(self._times, separators=(",", ":"))

    def describe(
        self, sources: PromptSources, replies: Mapping[int, str]
    ) -> tuple[str, list[PromptPart]]:
        """Return the recipe of the request that was sent, as JSON, and its parts. If an error
        occurs, log the error and return an empty recipe, so that the turn goes on."""
        if self._sent is None:
            return "", []
        request, body = self._sent
        try:
            recipe, parts = self._describer.describe(request, body, sources, replies)
        except Exception:  # noqa: BLE001 - a prompt that cannot be shown later must not end a turn
            logger.exception("{}: what the model was shown cannot be stored", request.chat)
            return "", []
        return recipe.encode(), parts

    def _on_sent(self, request: ChatRequest, body: Mapping[str, Any]) -> None:
        self._sent = request, body
        self._times.setdefault("sent", []).append(self._milliseconds())

    def _note(self, name: str) -> None:
        self._times[name] = self._milliseconds()

    def _milliseconds(self) -> float:
        return round((self._clock() - self._began) * 1000, 1)
