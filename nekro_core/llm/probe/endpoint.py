"""Tests a model's endpoint for the operator: runs the steps of such a probe in order, within limits
of time and tokens."""

import secrets
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import anyio
import anyio.to_thread

from nekro_core.llm.failures import Redactor, model_error
from nekro_core.llm.http_model import HttpChatModel
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
"""Maximum time of a probe in seconds. A person at the page waits for the result."""
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
        settings: The settings of the endpoint, with an address. They need not be saved.
        tell: Called with each result as soon as it is known, for a page that shows progress.
        total_s: Maximum time of the probe, in seconds. Steps that have not ended by then are
            ``unknown``.
        number: The number in the picture and in the function; None for a random one.

    Returns:
        The results. A problem of the endpoint is a result, not an error. No text in the results
        contains the key.

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
    """The results of one probe so far. ``tell`` is called with each new result."""

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
            "vision": True,  # Without this, a note would replace the picture.
            "retries": 0,
            "connect_s": min(settings.connect_s, _NETWORK_S),
            "first_token_s": min(settings.first_token_s, _REQUEST_S),
            "total_s": min(settings.total_s, _REQUEST_S),
        }
        self._model = HttpChatModel(settings.model_copy(update=limits))

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
        for step in ProbeStep:
            if step not in self._results:
                self._say(step, UNKNOWN, reason, reason)
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
        code: str = "",
        advice: str = "",
        *,
        seconds: float = 0.0,
        text: str = "",
        **values: str | float,
    ) -> None:
        self._take(
            ProbeResult.of(
                step, verdict, reason, code, advice, seconds=seconds, text=text, **values
            )
        )

    async def _list(self) -> bool:
        """Ask for the list of models. Returns True if the probe should go on."""
        began = anyio.current_time()
        endpoint = await self._model.connect()
        try:
            status, body = await endpoint.get("models", _NETWORK_S)
        except ModelUnreachable as error:
            self._say(ProbeStep.HTTP, FAILED, "no_http", "", "check_scheme", text=str(error))
            return False
        seconds = anyio.current_time() - began
        if status in (401, 403):
            self._say(ProbeStep.HTTP, OK, "answered", "answered", seconds=seconds)
            refused, _ = model_error(status, body, "no reason given", self._redact)
            self._reject_key(refused)
            return False
        if status >= 500:
            refused, _ = model_error(status, body, "no reason given", self._redact)
            self._say(ProbeStep.HTTP, FAILED, "server_error", "", "server_error", text=str(refused))
            return False
        listing = read_listing(body, self._redact) if status == 200 else None
        if listing is None:
            self._say(ProbeStep.HTTP, OK, "no_list", "no_list", seconds=seconds)
            return True
        self._listing = listing
        number = len(listing.names)
        self._say(ProbeStep.HTTP, OK, "listed", "listed", seconds=seconds, number=number)
        return True

    async def _ask(self) -> bool:
        """Ask for a text. This shows whether the key is accepted, whether the model exists, and how
        fast it is. Returns True if the model answered."""
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
        self._say(ProbeStep.MODEL, OK, "known", "model_known", model=self._settings.model)
        self._speed = reply
        rate = reply.tokens_per_s
        code = "measured" if rate is None else "measured_rate"
        self._say(
            ProbeStep.SPEED, OK, "measured", code, seconds=reply.seconds,
            first=f"{reply.first_s:.2f}", rate=f"{rate or 0:.0f}",
        )  # fmt: skip
        return True

    def _accept_key(self) -> None:
        has_key = bool(self._settings.api_key.get_secret_value())
        reason = "accepted" if has_key else "not_needed"
        self._say(ProbeStep.KEY, OK, reason, f"key_{reason}")

    def _reject_key(self, error: ModelError) -> None:
        if not self._settings.api_key.get_secret_value():
            self._say(ProbeStep.KEY, FAILED, "missing", "key_missing", "make_key")
            return
        self._say(ProbeStep.KEY, FAILED, "rejected", "", "copy_key", text=str(error))

    def _reject_model(self, error: ModelError) -> None:
        model, listing = self._settings.model, self._listing
        if listing.names and not listing.holds(model):
            near = ", ".join(listing.near(model))
            advice = "near_models" if near else "choose_listed"
            step, code = ProbeStep.MODEL, "unknown_model"
            self._say(step, FAILED, code, code, advice, model=repr(model), near=near)
            return
        self._say(ProbeStep.MODEL, FAILED, "rejected", "", "check_model", text=str(error))

    def _fail_speed(self, error: ModelError) -> None:
        match error:
            case QuotaExceeded():
                self._accept_key()
                reason, advice = "quota", "check_balance"
            case ModelRefused():
                self._accept_key()
                reason, advice = "declined", "harmless_declined"
            case ReplyBroken():
                reason, advice = "broken", "broken_often"
            case _:
                reason, advice = "no_answer", "overloaded"
        self._say(ProbeStep.SPEED, FAILED, reason, "", advice, text=str(error))

    async def _see(self) -> None:
        """Show the model a picture of a number, and ask which number it is."""
        wanted = self._settings.vision
        try:
            request = await anyio.to_thread.run_sync(picture_request, self._number)
            reply = await self._request(request)
        except RequestRejected as error:
            self._vision, code, why = False, "takes_no_pictures", str(error)
        except ModelError as error:
            step, again = ProbeStep.PICTURES, "test_again"
            self._say(step, UNKNOWN, "no_answer", "", again, text=str(error))
            return
        else:
            self._vision, why = names_number(reply, self._number), ""
            code = "read_picture" if self._vision else "did_not_read_picture"
        step = ProbeStep.PICTURES
        if self._vision == wanted:
            self._say(step, OK if wanted else ABSENT, "as_set", code, error=why)
        elif self._vision:
            self._say(step, DIFFERS, "sees", code, "set_vision")
        else:
            self._say(step, DIFFERS, "blind", code, "unset_vision", error=why)

    async def _call(self) -> None:
        """Ask the model to call a function."""
        try:
            reply = await self._request(function_request(self._number))
        except RequestRejected as error:
            self._functions, code, why = False, "takes_no_functions", str(error)
        except ModelError as error:
            step, again = ProbeStep.FUNCTIONS, "test_again"
            self._say(step, UNKNOWN, "no_answer", "", again, text=str(error))
            return
        else:
            self._functions = reports_number(reply, self._number)
            broken = next((call.problem for call in reply.calls if call.problem), "")
            code, why = "called_function", self._redact(broken)
            if not self._functions:
                wrong = "wrong_call" if reply.calls else "called_no_function"
                code = "broken_call" if broken else wrong
        if self._functions:
            self._say(ProbeStep.FUNCTIONS, OK, "called", code)
        else:
            self._say(ProbeStep.FUNCTIONS, ABSENT, "not_called", code, "leave_code", error=why)

    async def _measure_context(self) -> None:
        """Compare the size of the context in the settings with the size that the endpoint reports
        or, if it reports none, with the size that the provider has published."""
        model, listing = self._settings.model, self._listing
        told = listing.contexts.get(model) or listing.contexts.get(f"models/{model}")
        code = "context_of_server"
        if told is None and (known := await known_model(model, self._settings.base_url)):
            told, code = known.context_tokens, "context_published"
        if told is None:
            step, code = ProbeStep.CONTEXT, "context_not_told"
            self._say(step, UNKNOWN, "not_told", code, "look_up_context")
            return
        self._context, wanted = told, self._settings.context_tokens
        if wanted > told:
            self._say(
                ProbeStep.CONTEXT, DIFFERS, "too_large", code, "lower_context",
                told=told, wanted=wanted,
            )  # fmt: skip
        else:
            self._say(ProbeStep.CONTEXT, OK, "fits", code, told=told, wanted=wanted)

    async def _request(self, request: ChatRequest) -> ProbeReply:
        reply = await ask(self._model, request)
        self._spent += reply.usage.tokens if reply.usage else 0
        return reply
