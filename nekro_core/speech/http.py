"""Asks a voice engine over HTTP, at an ``/audio/speech`` address in OpenAI's style."""

import httpx

from nekro_core.speech.settings import SpeechSettings
from nekro_core.speech.speaker import EngineUnavailable, Speech, VoiceInfo, VoiceUnknown
from nekro_core.speech.text import clean_text
from nekro_core.speech.wav import NotWav, read_wav, write_wav

_VOICES = ("alloy", "echo", "fable", "nova", "onyx", "shimmer")
"""The names of the voices of OpenAI's first speech model. Most servers accept them."""
_MOST_BYTES = 100_000_000


class HttpSpeaker:
    """A `Speaker` that asks an endpoint for WAV.

    The endpoint decides which voices exist, and most endpoints cannot list them. So any name of a
    voice is sent. If the endpoint refuses the request with a text about the voice, `VoiceUnknown`
    is raised. Such engines speak the language in which the text is written.
    """

    name = "http"

    def __init__(self, settings: SpeechSettings) -> None:
        self._settings = settings
        self._address = f"{settings.base_url.rstrip('/')}/audio/speech"
        key = settings.api_key.get_secret_value()
        self._key = key
        self._client = httpx.AsyncClient(
            timeout=settings.timeout_s, headers={"Authorization": f"Bearer {key}"} if key else {}
        )

    async def voices(self) -> tuple[VoiceInfo, ...]:
        """Return the configured voice and the names that most endpoints know. The language tag
        ``mul`` means any language."""
        names = dict.fromkeys((self._settings.voice, *_VOICES))
        return tuple(VoiceInfo(name=name, language="mul") for name in names if name)

    async def speak(self, text: str, *, voice: str | None = None, speed: float = 1.0) -> Speech:
        """Speak a text; see `Speaker.speak`."""
        chosen = voice or self._settings.voice or _VOICES[0]
        body = {
            "model": self._settings.model,
            "input": clean_text(text),
            "voice": chosen,
            "speed": min(2.0, max(0.5, speed)),
            "response_format": "wav",
        }
        host = httpx.URL(self._address).host
        try:
            status, data = await self._post(body)
        except httpx.HTTPError as error:
            raise EngineUnavailable(
                f"the voice engine at {host} does not answer: {str(error) or type(error).__name__}"
            ) from error
        if status != httpx.codes.OK:
            said = data[:300].decode("utf-8", "replace")
            if self._key:
                said = said.replace(self._key, "***")
            if status in (400, 404, 422) and "voice" in said.lower():
                raise VoiceUnknown(f"no voice {chosen!r} at {host}: {said}")
            raise EngineUnavailable(f"the voice engine at {host} answers {status}: {said}")
        try:
            sound = read_wav(data)
        except NotWav as error:
            raise EngineUnavailable(
                f"the voice engine at {host} did not send a WAV file: {error}"
            ) from error
        return Speech(wav=write_wav(sound), seconds=sound.seconds, voice=chosen)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _post(self, body: dict[str, object]) -> tuple[int, bytes]:
        async with self._client.stream("POST", self._address, json=body) as response:
            data = bytearray()
            async for chunk in response.aiter_bytes():
                data += chunk
                if len(data) > _MOST_BYTES:
                    raise httpx.DecodingError(f"more than {_MOST_BYTES} bytes of sound")
            return response.status_code, bytes(data)
