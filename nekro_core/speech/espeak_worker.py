"""Speaks with espeak-ng, which it calls through ctypes. This is a program that only
`nekro_core.speech.espeak` runs.

Source of names and numbers: ``speak_lib.h`` of espeak-ng 1.52.
"""

import ctypes
import importlib
from pathlib import Path
from typing import Any

from nekro_core.speech.japanese import to_kana
from nekro_core.system.workers.loop import Answer, serve

# This is AUDIO_OUTPUT_SYNCHRONOUS: the callback gets the samples during the call.
_SYNCHRONOUS = 2
# This is espeakINITIALIZE_DONT_EXIT: after a failure, the library returns an error and does not end
# the process.
_DO_NOT_EXIT = 0x8000
_UTF8 = 1  # espeakCHARS_UTF8
_CHARACTERS = 1  # POS_CHARACTER
_RATE = 1  # espeakRATE, words a minute
_OK = 0

_Callback = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p
)


class _Voice(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("languages", ctypes.c_char_p),
        ("identifier", ctypes.c_char_p),
        ("gender", ctypes.c_ubyte),
        ("age", ctypes.c_ubyte),
        ("variant", ctypes.c_ubyte),
        ("xx1", ctypes.c_ubyte),
        ("score", ctypes.c_int),
        ("spare", ctypes.c_void_p),
    )


class EspeakLibrary:
    """The C library, which has one state per process."""

    def __init__(self, path: str, data: str) -> None:
        self._library = ctypes.CDLL(path)
        self.rate = self._library.espeak_Initialize(_SYNCHRONOUS, 0, data.encode(), _DO_NOT_EXIT)
        if self.rate <= 0:
            raise OSError(f"espeak-ng does not start with the data in {data}")
        self._samples = bytearray()
        self._most_bytes = 0
        # Keep a reference to the callback, because ctypes keeps none. Otherwise the library would
        # call a function that was garbage-collected.
        self._callback = _Callback(self._receive)
        self._library.espeak_SetSynthCallback(self._callback)
        self._library.espeak_ListVoices.restype = ctypes.POINTER(ctypes.POINTER(_Voice))

    def voices(self) -> dict[str, str]:
        """Return for each language code the name with which the library loads the voice of this
        language.

        Some voices, such as ``fr-fr``, cannot be loaded by their code, because the library compares
        the code with file names.
        """
        listed = self._library.espeak_ListVoices(None)
        names: dict[str, str] = {}
        position = 0
        while listed[position]:
            voice = listed[position].contents
            # The first byte is the priority. The language code follows.
            code = voice.languages[1:].decode("ascii", "replace")
            names.setdefault(code, voice.identifier.decode("ascii", "replace"))
            position += 1
        return names

    def speak(self, text: str, voice: str, words_a_minute: int, most_seconds: float) -> bytes:
        """Return 16-bit PCM. The sound is cut off soon after ``most_seconds``. Raises `LookupError`
        if there is no such voice."""
        if self._library.espeak_SetVoiceByName(voice.encode()) != _OK:
            raise LookupError(voice)
        self._library.espeak_SetParameter(_RATE, words_a_minute, 0)
        self._samples.clear()
        self._most_bytes = int(most_seconds * self.rate) * 2
        encoded = text.encode() + b"\0"
        self._library.espeak_Synth(
            encoded, ctypes.c_size_t(len(encoded)), 0, _CHARACTERS, 0, _UTF8, None, None
        )
        return bytes(self._samples)

    def _receive(self, samples: Any, count: int, _events: Any) -> int:
        if samples and count > 0:
            self._samples += ctypes.string_at(samples, count * 2)
        return int(len(self._samples) > self._most_bytes)


def main() -> None:
    """Serve requests ``voices`` and ``speak``."""
    try:
        loader = importlib.import_module("espeakng_loader")
        library = EspeakLibrary(loader.get_library_path(), loader.get_data_path())
    except (ImportError, OSError, RuntimeError) as error:
        missing = f"espeak-ng cannot be loaded: {error}"
        return serve(lambda _request: ({"missing": missing}, b""))
    folder = Path(loader.get_data_path(), "voices", "!v")
    variants = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []

    def handle(request: dict[str, Any]) -> Answer:
        if request["do"] == "voices":
            return {"voices": library.voices(), "variants": variants}, b""
        text = to_kana(request["text"]) if request["to_kana"] else request["text"]
        pcm = library.speak(
            text, request["voice"], request["words_a_minute"], request["most_seconds"]
        )
        return {"rate": library.rate}, pcm

    return serve(handle)


if __name__ == "__main__":
    main()
