"""Transcribes voices with an OpenAI-style ``/audio/transcriptions`` address.

Source: https://platform.openai.com/docs/api-reference/audio/createTranscription; whisper.cpp's
server, faster-whisper-server, LocalAI, vLLM and SiliconFlow have the same interface.
"""

import json

import httpx

from nekro_core.media.plain_wav import plain_wav_seconds
from nekro_core.speech.settings import TranscriberSettings
from nekro_core.speech.speaker import EngineUnavailable, SoundUnusable, Transcript

MOST_BYTES = 24 * 1024 * 1024
"""The largest WAV file in bytes. OpenAI's limit for the whole request is 25 MB."""
_MOST_ANSWER = 1024 * 1024
_MOST_TEXT = 20_000
"""The largest number of characters of a transcript. More than an hour of fast speech fits into
it."""
_ABOUT_THE_SOUND = (400, 413, 415, 422)


class HttpTranscriber:
    """A `Transcriber` that uses an endpoint. ``settings.base_url`` must be set."""

    name = "http"

    def __init__(self, settings: TranscriberSettings) -> None:
        self._settings = settings
        self._address = f"{settings.base_url.rstrip('/')}/audio/transcriptions"
        self._key = settings.api_key.get_secret_value()
        self._client: httpx.AsyncClient | None = None

    async def transcribe(self, wav: bytes) -> Transcript:
        """Transcribe a voice; see `Transcriber.transcribe`."""
        if plain_wav_seconds(wav) is None:
            raise SoundUnusable(f"expected a 16-bit WAV file with one channel, got {wav[:12]!r}")
        if len(wav) > MOST_BYTES:
            raise SoundUnusable(f"{len(wav)} bytes of sound, at most {MOST_BYTES}")
        fields = {"model": self._settings.model, "response_format": "json"}
        if self._settings.language:
            fields["language"] = self._settings.language
        host = httpx.URL(self._address).host
        try:
            status, answer = await self._post(fields, wav)
        except httpx.HTTPError as error:
            raise EngineUnavailable(
                f"the transcriber at {host} does not answer: {str(error) or type(error).__name__}"
            ) from error
        if status != httpx.codes.OK:
            said = answer[:300].decode("utf-8", "replace")
            if self._key:
                said = said.replace(self._key, "***")
            kind = SoundUnusable if status in _ABOUT_THE_SOUND else EngineUnavailable
            raise kind(f"the transcriber at {host} answers {status}: {said}")
        return _read(answer, host)

    async def aclose(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()

    async def _post(self, fields: dict[str, str], wav: bytes) -> tuple[int, bytes]:
        if self._client is None:
            headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
            self._client = httpx.AsyncClient(timeout=self._settings.timeout_s, headers=headers)
        files = {"file": ("voice.wav", wav, "audio/wav")}
        async with self._client.stream("POST", self._address, data=fields, files=files) as response:
            data = bytearray()
            async for chunk in response.aiter_bytes():
                data += chunk
                if len(data) > _MOST_ANSWER:
                    raise httpx.DecodingError(f"more than {_MOST_ANSWER} bytes of answer")
            return response.status_code, bytes(data)


def _read(answer: bytes, host: str) -> Transcript:
    try:
        found = json.loads(answer)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("text"), str):
        said = answer[:200].decode("utf-8", "replace")
        raise EngineUnavailable(
            f'the transcriber at {host} sent {said!r}: expected JSON such as {{"text": "hello"}}'
        )
    language = found.get("language")
    return Transcript(
        text=found["text"].strip()[:_MOST_TEXT],
        language=language[:40] if isinstance(language, str) else "",
    )
