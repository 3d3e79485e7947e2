"""Runs the steps of a probe in order, within limits of time and tokens."""

import secrets
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import anyio
import anyio.to_thread

from nekro_core.llm.failures import Redactor, model_error
from nekro_core.llm.known_prices import known_model
from nekro_core.llm.model import (
    ChatRequest,
    KeyRejected,
    ModelError,
    ModelRefused,
    ModelUnreachable,
    QuotaExceeded,
    ReplyBroken,
    RequestRejected,
)
from nekro_core.llm.openai_model import OpenAIChatModel
from nekro_core.llm.probe.listing import ModelListing, read_listing
from nekro_core.llm.probe.network import probe_network
from nekro_core.llm.probe.report import EndpointReport, ProbeResult, ProbeStep, ProbeVerdict
from nekro_core.llm.probe.requests import (
    ProbeReply,
    ask,
    function_request,
    names_number,
    picture_request,
    reports_number,
    speed_request,
)
from nekro_core.llm.settings import LLMSettings

_TOTAL_S = 90.0
"""Longest time of a probe in seconds. A person waits for it at the page."""
_NETWORK_S = 10.0
_REQUEST_S = 45.0
"""Longest wait for the first token, and for a whole reply."""

OK, FAILED, ABSENT = ProbeVerdict.OK, ProbeVerdict.FAILED, ProbeVerdict.ABSENT
DIFFERS, UNKNOWN = ProbeVerdict.DIFFERS, ProbeVerdict.UNKNOWN

Tell = Callable[[ProbeResult], None]


async def probe_endpoint(
    settings: LLMSettings,
    *,
    tell: Tell = lambda _: None,
    total_s: float = _TOTAL_S,
    number: int | None = None,
) -> EndpointReport:
    """Test an endpoint: three small requests of at most 1024 tokens of reply each.

    Args:
        settings: The endpoint. It need not be saved. It must name an address.
        tell: Is called with each result as soon as it is known, for a page that shows progress.
        total_s: Longest time of the probe, in seconds. Steps that did not end in it are
            ``unknown``.
        number: The number in the picture and in the function; None for a random one.

    Returns:
        The results. A problem of the endpoint is a result, not an error. No text in it has the key.

    Raises:
        ValueError: The settings name no address.
    """
    if not settings.configured:
        raise ValueError("there is no base_url: name the address of an API to test")
    probe = _Probe(settings, tell, number or 1000 + secrets.randbelow(9000))
    with anyio.move_on_after(total_s) as scope:
        async with aclosing(probe):
            await probe.run()
    return probe.report(out_of_time=scope.cancelled_caught)


class _Probe:
    """The results of one probe so far."""

    def __init__(self, settings: LLMSettings, tell: Tell, number: int) -> None:
        self._settings = settings
        self._tell = tell
        self._number = number
        self._redact = Redactor(settings.api_key.get_secret_value())
        self._results: dict[ProbeStep, ProbeResult] = {}
        self._listing = ModelListing()
        self._speed: ProbeReply | None = None
        self._vision: bool | None = None
        self._functions: bool | None = None
        self._context: int | None = None
        self._spent = 0
        limits: dict[str, Any] = {
            "vision": True,  # otherwise the picture would be replaced by a note
            "retries": 0,
            "connect_s": min(settings.connect_s, _NETWORK_S),
            "first_token_s": min(settings.first_token_s, _REQUEST_S),
            "total_s": min(settings.total_s, _REQUEST_S),
        }
        self._model = OpenAIChatModel(settings.model_copy(update=limits))

    async def aclose(self) -> None:
        with anyio.CancelScope(shield=True):
            await self._model.aclose()

    async def run(self) -> None:
        if not await probe_network(self._settings, _NETWORK_S, self._take):
            return
        if not await self._list() or not await self._ask():
            return
        await self._see()
        await self._call()
        await self._measure_context()

    def report(self, *, out_of_time: bool) -> EndpointReport:
        """Make the report. Steps without a result become ``unknown``."""
        reason = "out_of_time" if out_of_time else "not_tried"
        text = "there was no time left" if out_of_time else "an earlier step failed"
        for step in ProbeStep:
            if step not in self._results:
                self._say(step, UNKNOWN, reason, text)
        speed = self._speed
        return EndpointReport(
            steps=tuple(self._results[step] for step in ProbeStep),
            models=self._listing.names,
            first_token_s=speed.first_s if speed else None,
            tokens_per_s=speed.tokens_per_s if speed else None,
            vision=self._vision,
            functions=self._functions,
            context_tokens=self._context,
            spent_tokens=self._spent,
        )

    def _take(self, result: ProbeResult) -> None:
        self._results[result.step] = result
        self._tell(result)

    def _say(
        self,
        step: ProbeStep,
        verdict: ProbeVerdict,
        reason: str,
        text: str,
        advice: str = "",
        seconds: float = 0.0,
    ) -> None:
        self._take(
            ProbeResult(
                step=step, verdict=verdict, reason=reason, text=text, advice=advice,
                seconds=seconds,
            )
        )  # fmt: skip

    async def _list(self) -> bool:
        """Ask for the list of models. Returns whether to go on."""
        began = anyio.current_time()
        endpoint = await self._model.connect()
        try:
            status, body = await endpoint.get("models", _NETWORK_S)
        except ModelUnreachable as error:
            self._say(
                ProbeStep.HTTP, FAILED, "no_http", str(error),
                "Check that the address and the port are those of an API, and whether it begins "
                "with http:// or https://.",
            )  # fmt: skip
            return False
        seconds = anyio.current_time() - began
        if status in (401, 403):
            self._say(ProbeStep.HTTP, OK, "answered", "the server answers", seconds=seconds)
            refused, _ = model_error(status, body, "no reason given", self._redact)
            self._reject_key(refused)
            return False
        if status >= 500:
            refused, _ = model_error(status, body, "no reason given", self._redact)
            self._say(
                ProbeStep.HTTP, FAILED, "server_error", str(refused),
                "Wait, look at the provider's status page, or check that base_url is complete.",
            )  # fmt: skip
            return False
        listing = read_listing(body, self._redact) if status == 200 else None
        if listing is None:
            text = "the server answers, but has no list of models"
            self._say(ProbeStep.HTTP, OK, "no_list", text, seconds=seconds)
            return True
        self._listing = listing
        text = f"the server offers {len(listing.names)} models"
        self._say(ProbeStep.HTTP, OK, "listed", text, seconds=seconds)
        return True

    async def _ask(self) -> bool:
        """Ask for a text: this shows whether the key, the model and the speed are good. Returns
        whether the model answered."""
        try:
            reply = await self._request(speed_request())
        except KeyRejected as error:
            self._reject_key(error)
            return False
        except RequestRejected as error:
            self._accept_key()
            self._reject_model(error)
            return False
        except ModelError as error:
            self._fail_speed(error)
            return False
        self._accept_key()
        self._say(ProbeStep.MODEL, OK, "known", f"the model {self._settings.model} answers")
        self._speed = reply
        rate = reply.tokens_per_s
        fast = f", then {rate:.0f} tokens a second" if rate is not None else ""
        self._say(
            ProbeStep.SPEED, OK, "measured", f"first words after {reply.first_s:.2f} s{fast}",
            seconds=reply.seconds,
        )  # fmt: skip
        return True

    def _accept_key(self) -> None:
        has_key = bool(self._settings.api_key.get_secret_value())
        text = "the provider takes the key" if has_key else "the server asks for no key"
        self._say(ProbeStep.KEY, OK, "accepted" if has_key else "not_needed", text)

    def _reject_key(self, error: ModelError) -> None:
        if not self._settings.api_key.get_secret_value():
            self._say(
                ProbeStep.KEY, FAILED, "missing", "the provider asks for a key, and none is set",
                "Make a key on the provider's page and put it into api_key.",
            )  # fmt: skip
            return
        self._say(
            ProbeStep.KEY, FAILED, "rejected", str(error),
            "Copy the key again from the provider's page, and check that it belongs to this "
            "provider and region.",
        )  # fmt: skip

    def _reject_model(self, error: ModelError) -> None:
        model, listing = self._settings.model, self._listing
        if listing.names and not listing.holds(model):
            near = ", ".join(listing.near(model))
            self._say(
                ProbeStep.MODEL, FAILED, "unknown_model", f"the provider has no model {model!r}",
                f"Perhaps one of these is meant: {near}." if near else "Choose one of its list.",
            )  # fmt: skip
            return
        self._say(
            ProbeStep.MODEL, FAILED, "rejected", str(error),
            "Check the name of the model, and that base_url is the API's address, which usually "
            "ends in /v1.",
        )  # fmt: skip

    def _fail_speed(self, error: ModelError) -> None:
        match error:
            case QuotaExceeded():
                self._accept_key()
                reason, advice = "quota", "Check the balance and the limits of the account."
            case ModelRefused():
                self._accept_key()
                reason, advice = "declined", "A filter of the provider declines a harmless text."
            case ReplyBroken():
                reason, advice = "broken", "Test again. If it happens often, ask the provider."
            case _:
                reason = "no_answer"
                advice = "The model may be overloaded or still loading. Test again in a minute."
        self._say(ProbeStep.SPEED, FAILED, reason, str(error), advice)

    async def _see(self) -> None:
        """Show the model a picture."""
        wanted = self._settings.vision
        try:
            request = await anyio.to_thread.run_sync(picture_request, self._number)
            reply = await self._request(request)
        except RequestRejected as error:
            self._vision, text = False, f"the model takes no pictures: {error}"
        except ModelError as error:
            self._say(ProbeStep.PICTURES, UNKNOWN, "no_answer", str(error), "Test again.")
            return
        else:
            self._vision = names_number(reply, self._number)
            text = "the model read the number in a picture"
            if not self._vision:
                text = "the model did not read the number in a picture"
        if self._vision == wanted:
            self._say(ProbeStep.PICTURES, OK if wanted else ABSENT, "as_set", text)
        elif self._vision:
            self._say(
                ProbeStep.PICTURES, DIFFERS, "sees", text,
                "Set vision to true. Otherwise a note replaces each picture.",
            )  # fmt: skip
        else:
            advice = "Set vision to false, or choose a model that sees pictures."
            self._say(ProbeStep.PICTURES, DIFFERS, "blind", text, advice)

    async def _call(self) -> None:
        """Ask the model to call a function."""
        try:
            reply = await self._request(function_request(self._number))
        except RequestRejected as error:
            self._functions, text = False, f"the model takes no functions: {error}"
        except ModelError as error:
            self._say(ProbeStep.FUNCTIONS, UNKNOWN, "no_answer", str(error), "Test again.")
            return
        else:
            self._functions = reports_number(reply, self._number)
            text = "the model called a function with the right argument"
            if not self._functions:
                broken = next((call.problem for call in reply.calls if call.problem), "")
                text = "the model did not call the function it was asked to call"
                if broken:
                    text = f"the model's call of a function is broken: {self._redact(broken)}"
                elif reply.calls:
                    text = "the model called a function with the wrong name or argument"
        if self._functions:
            self._say(ProbeStep.FUNCTIONS, OK, "called", text)
        else:
            self._say(
                ProbeStep.FUNCTIONS, ABSENT, "not_called", text,
                "Leave the mode at code. The mode tools needs a model that calls functions.",
            )  # fmt: skip

    async def _measure_context(self) -> None:
        """Compare the size of the context that the endpoint reports with the setting."""
        model, listing = self._settings.model, self._listing
        told = listing.contexts.get(model) or listing.contexts.get(f"models/{model}")
        source = "the server says"
        if told is None and (known := await known_model(model, self._settings.base_url)):
            told, source = known.context_tokens, "it is published that"
        if told is None:
            self._say(
                ProbeStep.CONTEXT, UNKNOWN, "not_told", "nobody says how long a prompt may be",
                "Look it up in the provider's documentation and set context_tokens.",
            )  # fmt: skip
            return
        self._context, wanted = told, self._settings.context_tokens
        text = f"{source} prompt and reply may have {told} tokens; the setting is {wanted}"
        if wanted > told:
            advice = f"Set context_tokens to at most {told}. Otherwise long prompts fail."
            self._say(ProbeStep.CONTEXT, DIFFERS, "too_large", text, advice)
        else:
            self._say(ProbeStep.CONTEXT, OK, "fits", text)

    async def _request(self, request: ChatRequest) -> ProbeReply:
        reply = await ask(self._model, request)
        self._spent += reply.usage.tokens if reply.usage else 0
        return reply
