"""A fake OpenAI-style ``/audio/speech`` endpoint. It answers with a tone."""

import json
import math
import struct
from typing import Any

from anyio.abc import SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from nekro_core.speech.wav import PcmSound, write_wav
from tests.peers.listening import LoopbackServer, read_request

RATE = 16_000


class SpeechServer(LoopbackServer):
    """Answers with a tone. A longer text gives a longer tone. The voices are ``alloy`` and
    ``echo``.

    While ``answers`` has (status, body) pairs, each request gets the next pair instead.
    """

    def __init__(self, answers: tuple[tuple[int, bytes], ...] = ()) -> None:
        super().__init__()
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self._answers = list(answers)

    async def serve(self, stream: SocketStream, reader: BufferedByteReceiveStream) -> bool:
        request = await read_request(reader)
        body = json.loads(request.body)
        self.asked.append(body)
        self.headers.append(request.headers)
        status, data = self._answers.pop(0) if self._answers else _hum(body)
        head = f"HTTP/1.1 {status} Said\r\nContent-Length: {len(data)}\r\n\r\n"
        await stream.send(head.encode() + data)
        return True


def _hum(body: dict[str, Any]) -> tuple[int, bytes]:
    if body["voice"] not in ("alloy", "echo"):
        return 400, json.dumps({"error": {"message": "Invalid voice"}}).encode()
    count = int(RATE * (0.5 + 0.05 * len(body["input"])) / body["speed"])
    samples = (int(8_000 * math.sin(0.1 * number)) for number in range(count))
    return 200, write_wav(PcmSound(struct.pack(f"<{count}h", *samples), RATE))
