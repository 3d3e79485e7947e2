"""A program that checks and converts pictures. Only `nekro_core.media.converter` runs it."""

import io
import warnings
from collections.abc import Iterator
from typing import Any

from PIL import ExifTags, Image, ImageOps, ImageSequence

from nekro_core.media.child import Answer
from nekro_core.media.errors import UnusableMedia
from nekro_core.media.fork_loop import serve
from nekro_core.media.picture_jobs import check, show

_READ = ("PNG", "JPEG", "GIF", "WEBP", "BMP")
_MOST_PIXELS = 64_000_000
"""The largest number of pixels of one frame. Decoded they take 256 MB, and as much again while they
are resized."""
_MOST_FRAMES = 600
_QUALITIES = (90, 80, 65, 50)
_STEP = 0.8
"""If a picture is still too large, its width and height are multiplied by this factor or a smaller
one for the next try."""
_LEAST_SIDE = 32

Json = dict[str, Any]


class PictureRequest:
    """One request, with the fields of `PictureLimits`."""

    def __init__(self, request: Json) -> None:
        self._types: list[str] = list(request["types"])
        self._max_bytes = int(request["max_bytes"])
        self._max_side = request["max_side"]
        self._max_sides = request["max_sides"]
        self._max_pixels = request["max_pixels"]
        self._animated = bool(request["animated"])

    def handle(self, data: bytes) -> Answer:
        """Return the fitted picture, or no bytes if the original fits. Raises `UnusableMedia`."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", Image.DecompressionBombWarning)
                with Image.open(io.BytesIO(data), formats=_READ) as picture:
                    return self._fit(picture, data)
        except (UnusableMedia, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001 (Pillow's decoders raise nearly anything on hostile bytes)
            raise UnusableMedia(f"the picture is damaged: {error}") from None

    def _fit(self, picture: Image.Image, data: bytes) -> Answer:
        width, height = picture.size
        if width * height > _MOST_PIXELS:
            raise UnusableMedia(
                f"the picture has {width}x{height} pixels, more than {_MOST_PIXELS}"
            )
        mime = Image.MIME[picture.format or ""]
        moves = getattr(picture, "n_frames", 1) > 1
        scale = self._scale(width, height)
        if (
            mime in self._types
            and scale == 1
            and len(data) <= self._max_bytes
            and (self._animated or not moves)
        ):
            return {"mime": mime}, b""
        if (
            moves
            and self._animated
            and "image/gif" in self._types
            and (made := self._moving(picture, scale))
        ):
            return {"mime": "image/gif"}, made
        picture.seek(0)
        return self._still(ImageOps.exif_transpose(picture), mime, scale)

    def _scale(self, width: int, height: int) -> float:
        scale = 1.0
        if self._max_side:
            scale = min(scale, self._max_side / max(width, height))
        if self._max_sides:
            scale = min(scale, self._max_sides / (width + height))
        if self._max_pixels:
            scale = min(scale, (self._max_pixels / (width * height)) ** 0.5)
        return scale

    def _moving(self, picture: Image.Image, scale: float) -> bytes:
        """Make a GIF of an animated picture. Returns no bytes if no GIF is small enough."""
        if getattr(picture, "n_frames", 1) > _MOST_FRAMES:
            return b""
        durations = [frame.info.get("duration", 100) for frame in ImageSequence.Iterator(picture)]
        while min(picture.size) * scale >= _LEAST_SIDE:
            out = io.BytesIO()
            frames = self._frames(picture, scale)
            next(frames).save(
                out,
                "GIF",
                save_all=True,
                append_images=frames,
                duration=durations,
                loop=picture.info.get("loop", 0),
                disposal=2,
            )
            if out.tell() <= self._max_bytes:
                return out.getvalue()
            scale *= min(_STEP, (self._max_bytes / out.tell()) ** 0.5)
        return b""

    @staticmethod
    def _frames(picture: Image.Image, scale: float) -> Iterator[Image.Image]:
        """Yield the frames one after another, because all frames together would take hundreds of
        times the memory of one frame."""
        for frame in ImageSequence.Iterator(picture):
            yield _scaled(frame.convert("RGBA"), scale)

    def _still(self, picture: Image.Image, mime: str, scale: float) -> Answer:
        clear = _has_transparency(picture)
        picture = picture.convert("RGBA" if clear else "RGB")
        while True:
            smaller = _scaled(picture, scale)
            size = 0
            for target, options in self._ways(mime, clear=clear):
                out = io.BytesIO()
                shown = _on_white(smaller) if clear and target == "image/jpeg" else smaller
                shown.save(out, target.removeprefix("image/").upper(), **options)
                if out.tell() <= self._max_bytes:
                    return {"mime": target}, out.getvalue()
                size = out.tell()
            if min(smaller.size) <= _LEAST_SIDE:
                raise UnusableMedia(
                    f"no picture of at most {self._max_bytes} bytes can be made of it"
                )
            scale *= min(_STEP, (self._max_bytes / size) ** 0.5)

    def _ways(self, mime: str, *, clear: bool) -> Iterator[tuple[str, Json]]:
        """Yield the types to try, best first, each with options for its encoder. The best type is a
        lossless one for drawings and transparent pictures, and JPEG for photographs."""
        exact = clear or mime not in ("image/jpeg", "image/webp")
        if exact and "image/png" in self._types:
            yield "image/png", {"compress_level": 4}
        for target in ("image/jpeg", "image/webp"):
            if target in self._types:
                for quality in _QUALITIES:
                    yield target, {"quality": quality}
                break
        else:
            if not exact and "image/png" in self._types:
                yield "image/png", {}
            if "image/gif" in self._types:
                yield "image/gif", {}
            if "image/bmp" in self._types:
                yield "image/bmp", {}


def _has_transparency(picture: Image.Image) -> bool:
    return picture.has_transparency_data and (
        picture.convert("RGBA").getchannel("A").getextrema() != (255, 255)
    )


def _on_white(picture: Image.Image) -> Image.Image:
    ground = Image.new("RGB", picture.size, "white")
    ground.paste(picture, mask=picture.getchannel("A"))
    return ground


def _scaled(picture: Image.Image, scale: float) -> Image.Image:
    if scale >= 1:
        return picture
    width, height = picture.size
    size = (max(1, int(width * scale)), max(1, int(height * scale)))
    return picture.resize(size, Image.Resampling.LANCZOS, reducing_gap=2.0)


def warm_up() -> None:
    """Load every part of Pillow that a file could need, because a confined child cannot open files.
    Some parts are loaded only by using them."""
    Image.init()
    still, clear = Image.new("RGB", (40, 40), "red"), Image.new("RGBA", (40, 40))
    turned = Image.Exif()
    turned[ExifTags.Base.Orientation] = 6
    made = io.BytesIO()
    still.save(made, "GIF", save_all=True, append_images=[clear.convert("P")], duration=50)
    samples = [made.getvalue()]
    for kind, picture in (("PNG", clear), ("JPEG", still), ("WEBP", still), ("BMP", still)):
        made = io.BytesIO()
        picture.save(made, kind, **({"exif": turned} if kind == "JPEG" else {}))
        samples.append(made.getvalue())
    limits = {"max_bytes": 1 << 20, "max_sides": None, "max_pixels": None, "animated": True}
    for kind in _READ:
        wanted = {**limits, "types": [f"image/{kind.lower()}"], "max_side": 36}
        for sample in samples:
            PictureRequest(wanted).handle(sample)
    for packed in (None, "tiff_lzw", "jpeg"):
        made = io.BytesIO()
        still.save(made, "TIFF", compression=packed)
        show({"longer_side": 36}, made.getvalue())


def handle(request: Json, data: bytes) -> Answer:
    """Do one ``job``, in its own child process."""
    return _JOBS[request["job"]](request, data)


def _fit(request: Json, data: bytes) -> Answer:
    return PictureRequest(request).handle(data)


_JOBS = {"check": check, "show": show, "fit": _fit}


def main() -> None:
    """Warm up, then serve requests until the process is idle."""
    warm_up()
    serve(handle)


if __name__ == "__main__":
    main()
