"""Makes pictures smaller."""

import base64

from nekro_core.compat.nekro_agent.host import current_host
from nekro_core.media.errors import MediaError
from nekro_core.tools.outcome import InvalidValue

__all__ = ["process_image_data_url"]

MAX_BYTES = 500 * 1024
"""Largest size of a picture in bytes, unless the plugin gives another number."""
_SIDES = (2048, 1568, 1024, 768, 512, 384, 256, 128, 64)
"""Lengths of the longer side in pixels. They are tried in this order until the picture fits."""


async def process_image_data_url(data_url: str, max_size: int = MAX_BYTES) -> str:
    """Make a picture smaller, so that it has at most ``max_size`` bytes. A picture that is small
    enough is returned unchanged.

    ``data_url`` and the result are data URLs such as ``data:image/png;base64,...``. Raises
    `InvalidValue` if ``data_url`` is not such a URL, if its data are not a picture, or if the
    picture does not fit at any size.
    """
    head, comma, encoded = data_url.partition(",")
    if not comma or not head.startswith("data:image/") or not head.endswith(";base64"):
        raise InvalidValue(f"expected data:image/...;base64,...; it begins with {data_url[:40]!r}")
    try:
        data = base64.b64decode(encoded, validate=True)
    except ValueError as error:
        raise InvalidValue(f"the data URL is no base64: {error}") from None
    if len(data) <= max_size:
        return data_url
    copies = current_host().reach.pictures
    if copies is None:
        raise InvalidValue("this bot cannot convert pictures")
    for side in _SIDES:
        try:
            made = await copies.picture_to_show(data, longer_side=side)
        except MediaError as error:
            raise InvalidValue(f"the data URL holds no usable picture: {error}") from None
        if len(made.data) <= max_size:
            return f"data:{made.mime};base64,{base64.b64encode(made.data).decode()}"
    raise InvalidValue(f"the picture does not fit {max_size} bytes, not even with {side} pixels")
