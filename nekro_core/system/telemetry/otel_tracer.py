"""Records spans with OpenTelemetry and sends them to a collector.

The extra ``otel`` of the bot installs the packages that this module imports. The attributes of
spans have the names of OpenTelemetry's semantic conventions for generative AI (version 1.41). The
environment variables ``OTEL_...`` say to which collector the spans are sent; see
docs/monitoring.md.
"""

import os
import threading
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager

import anyio
import anyio.to_thread
from opentelemetry import context
from opentelemetry import trace as otel
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from nekro_core import __version__
from nekro_core.system.telemetry.spans import Attributes, AttributeValue, Span, TracedContent

_END_S = 1.0
"""Maximum number of seconds that the end of the bot waits until the last spans are sent. The bot
must end within 3 s."""


class OtelSpan:
    """Implements `Span`."""

    __slots__ = ("span",)

    def __init__(self, span: otel.Span) -> None:
        self.span = span

    def note(self, name: str, value: AttributeValue) -> None:
        """See `Span.note`."""
        self.span.set_attribute(name, value)

    def fail(self, error: str) -> None:
        """See `Span.fail`."""
        self.span.set_attribute("error.type", error)
        self.span.set_status(otel.StatusCode.ERROR)

    def end(self) -> None:
        """See `Span.end`."""
        self.span.end()


class OtelTracer:
    """Implements `Tracer`. It has a provider of its own, so that several bots in one process, and
    libraries that use the global provider, do not get into each other's way."""

    enabled = True

    def __init__(self, provider: TracerProvider, content: Collection[TracedContent]) -> None:
        self._tracer = provider.get_tracer("nekro_core", __version__)
        self._content = frozenset(content)

    def shows(self, content: TracedContent) -> bool:
        """See `Tracer.shows`."""
        return content in self._content

    def begin(
        self,
        name: str,
        attributes: Attributes,
        *,
        parent: Span | None = None,
        client: bool = False,
    ) -> Span:
        """See `Tracer.begin`."""
        above = otel.set_span_in_context(parent.span) if isinstance(parent, OtelSpan) else None
        kind = otel.SpanKind.CLIENT if client else otel.SpanKind.INTERNAL
        return OtelSpan(
            self._tracer.start_span(name, context=above, kind=kind, attributes=attributes)
        )

    def current(self) -> Span | None:
        """See `Tracer.current`."""
        span = otel.get_current_span()
        return OtelSpan(span) if span.get_span_context().is_valid else None

    @contextmanager
    def work(
        self, name: str, attributes: Attributes, *, parent: Span | None = None
    ) -> Iterator[Span]:
        """See `Tracer.work`."""
        span = self.begin(name, attributes, parent=parent)
        assert isinstance(span, OtelSpan), "`begin` makes no other"
        token = context.attach(otel.set_span_in_context(span.span))
        try:
            yield span
        except BaseException as error:
            span.fail(type(error).__name__)
            raise
        finally:
            context.detach(token)
            span.end()


@asynccontextmanager
async def open_tracer(content: Collection[TracedContent]) -> AsyncIterator[OtelTracer]:
    """Open a tracer. When the block ends, the last spans are sent, for at most `_END_S`."""
    provider = await anyio.to_thread.run_sync(_provider)
    try:
        yield OtelTracer(provider, content)
    finally:
        # If the collector does not answer, the provider tries again for many seconds. So it is shut
        # down in a daemon thread: such a thread does not delay the end of the process.
        last = threading.Thread(target=provider.shutdown, name="last spans", daemon=True)
        last.start()
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(last.join, _END_S)


def _provider() -> TracerProvider:
    names = {"service.version": __version__}
    # If the operator has set a name in the environment, that name is used.
    if "OTEL_SERVICE_NAME" not in os.environ and "service.name=" not in os.environ.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    ):
        names["service.name"] = "nekro-core"
    provider = TracerProvider(resource=Resource.create(names), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider
