"""A web server that receives the requests of a webhook. It keeps each request, and answers as the
test says."""

import json
from typing import Any

from anyio.abc import SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from tests.peers.listening import LoopbackServer, Request, read_request


class WebhookReceiver(LoopbackServer):
    """Answers every request with ``status``, and with a redirect if ``location`` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[Request] = []
        self.status = 204
        self.location = ""

    @property
    def url(self) -> str:
        return f"{self.base_url}/alerts"

    @property
    def host(self) -> str:
        """The host and the port of this server, as ``host:port``."""
        return self.base_url.removeprefix("http://").partition("/")[0]

    @property
    def told(self) -> list[Any]:
        """The bodies of all requests, decoded from JSON."""
        return [json.loads(each.body) for each in self.requests]

    async def serve(self, stream: SocketStream, reader: BufferedByteReceiveStream) -> bool:
        self.requests.append(await read_request(reader))
        more = f"Location: {self.location}\r\n" if self.location else ""
        answer = f"HTTP/1.1 {self.status} x\r\n{more}Content-Length: 0\r\nConnection: close\r\n\r\n"
        await stream.send(answer.encode())
        return False
