"""A collector of traces. It receives them by OTLP 1.x, as protobuf over HTTP, and keeps each
request."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import anyio
from anyio.abc import SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.peers.listening import LoopbackServer, Request, read_request

CLIENT = 3
"""The number of the kind of spans (`SPAN_KIND_CLIENT`) that stand for a request to another
system."""


@dataclass(frozen=True, slots=True)
class ReceivedSpan:
    """One span as the bot sent it."""

    name: str
    kind: int
    span_id: bytes
    parent: bytes
    trace: bytes
    attributes: Mapping[str, Any]
    failed: bool
    seconds: float
    service: str


class TraceCollector(LoopbackServer):
    """Answers every request with the status 200."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[Request] = []

    @property
    def endpoint(self) -> str:
        """The value for the variable ``OTEL_EXPORTER_OTLP_ENDPOINT`` of the bot."""
        return self.base_url.removesuffix("/v1")

    @property
    def spans(self) -> list[ReceivedSpan]:
        """All spans that were received so far."""
        return [span for each in self.requests for span in _spans(each.body)]

    async def until(
        self, condition: Callable[[list[ReceivedSpan]], bool], within: float = 60.0
    ) -> list[ReceivedSpan]:
        """Wait until the received spans fulfil a condition, at most ``within`` seconds, and return
        all received spans."""
        with anyio.fail_after(within):
            while not condition(self.spans):
                await anyio.sleep(0.05)
        return self.spans

    async def serve(self, stream: SocketStream, reader: BufferedByteReceiveStream) -> bool:
        self.requests.append(await read_request(reader))
        head = (
            "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n"
        )
        await stream.send(head.encode())
        return True


def _spans(body: bytes) -> Iterator[ReceivedSpan]:
    for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        service = _values(resource.resource.attributes).get("service.name", "")
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield ReceivedSpan(
                    name=span.name,
                    kind=span.kind,
                    span_id=span.span_id,
                    parent=span.parent_span_id,
                    trace=span.trace_id,
                    attributes=_values(span.attributes),
                    failed=span.status.code == 2,
                    seconds=(span.end_time_unix_nano - span.start_time_unix_nano) / 1e9,
                    service=service,
                )


def _values(attributes: Any) -> dict[str, Any]:
    return {each.key: _value(each.value) for each in attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    return getattr(value, kind)
