"""A fake `Transcriber` that returns a fixed text. It passes the conformance suite."""

import anyio

from nekro_core.media.plain_wav import plain_wav_seconds
from nekro_core.speech.speaker import SoundUnusable, Transcript


class FakeTranscriber:
    """Returns ``text`` for any sound that is not silent, as soon as ``go`` is set. ``heard`` lists
    the received sounds."""

    name = "fake"

    def __init__(self, text: str = "words", *, go: anyio.Event | None = None) -> None:
        self.text = text
        self.go = go
        self.heard: list[bytes] = []

    async def transcribe(self, wav: bytes) -> Transcript:
        if plain_wav_seconds(wav) is None or len(wav) > 24 * 1024 * 1024:
            raise SoundUnusable("no sound that can be written down")
        self.heard.append(wav)
        if self.go is not None:
            await self.go.wait()
        return Transcript(text=self.text if any(wav[44:]) else "")

    async def aclose(self) -> None:
        pass
