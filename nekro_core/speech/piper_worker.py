"""Speaks with Piper's neural voices. This is a program that only `nekro_core.speech.piper` runs."""

import importlib
from functools import lru_cache
from typing import Any

from nekro_core.system.workers.loop import Answer, serve


def main() -> None:
    """Serve ``speak`` requests. The two voices that were used last stay loaded (60 MB each)."""
    try:
        piper = importlib.import_module("piper")
        config = importlib.import_module("piper.config")
    except ImportError as error:
        missing = f"piper cannot be loaded: {error}"
        return serve(lambda _request: ({"missing": missing}, b""))
    load = lru_cache(maxsize=2)(piper.PiperVoice.load)

    def handle(request: dict[str, Any]) -> Answer:
        voice = load(request["model"])
        options = config.SynthesisConfig(length_scale=voice.config.length_scale / request["speed"])
        most_bytes = int(request["most_seconds"] * voice.config.sample_rate) * 2
        pcm = bytearray()
        for sentence in voice.synthesize(request["text"], options):
            pcm += sentence.audio_int16_bytes
            if len(pcm) > most_bytes:
                break
        return {"rate": voice.config.sample_rate}, bytes(pcm)

    return serve(handle)


if __name__ == "__main__":
    main()
