"""A fake OpenAI-style ``/audio/transcriptions`` endpoint. It recognizes tones, not words."""

import email.parser
import email.policy
import io
import json
import struct
import wave

from anyio.abc import SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from tests.peers.listening import LoopbackServer, read_request


class TranscriptionServer(LoopbackServer):
    """Answers ``Humming.`` to a 16-bit WAV with sound in it, and an empty text to a silent one.

    Any other file gets a 400. While ``answers`` has (status, body) pairs, each request gets the
    next pair instead.
    """

    def __init__(self, answers: tuple[tuple[int, bytes], ...] = ()) -> None:
        super().__init__()
        self.asked: list[dict[str, str]] = []
        """The form fields of each request; ``file`` holds the name of the uploaded file."""
        self.heard: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self._answers = list(answers)

    async def serve(self, stream: SocketStream, reader: BufferedByteReceiveStream) -> bool:
        request = await read_request(reader)
        head = f"Content-Type: {request.headers['content-type']}\r\n\r\n".encode()
        form = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + request.body)
        fields, sound = {"path": request.path}, b""
        for part in form.iter_parts():
            name = part.get_param("name", header="content-disposition")
            content = part.get_payload(decode=True)
            if name == "file":
                sound, content = content, (part.get_filename() or "").encode()
            fields[str(name)] = content.decode()
        self.asked.append(fields)
        self.heard.append(sound)
        self.headers.append(request.headers)
        status, data = self._answers.pop(0) if self._answers else _hear(sound)
        answer = f"HTTP/1.1 {status} Heard\r\nContent-Length: {len(data)}\r\n\r\n"
        await stream.send(answer.encode() + data)
        return True


def _hear(sound: bytes) -> tuple[int, bytes]:
    try:
        with wave.open(io.BytesIO(sound)) as file:
            samples = struct.unpack(f"<{file.getnframes()}h", file.readframes(file.getnframes()))
    except (wave.Error, EOFError, struct.error):
        return 400, json.dumps({"error": {"message": "Invalid file format."}}).encode()
    text = " Humming. " if any(samples) else ""
    return 200, json.dumps({"text": text, "language": "english"}).encode()
