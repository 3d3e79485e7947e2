"""docs/media.md agrees with the code."""

import re
from pathlib import Path
from typing import Any

import pytest

from nekro_core.api import adapter as api
from nekro_core.chat import File, Image, Text, Voice
from nekro_core.delivery.settings import DeliverySettings
from nekro_core.media.converter import VOICE_TYPES
from nekro_core.media.sound_worker import _DEMUXERS
from nekro_core.speech.settings import TranscriberSettings

PAGE = (Path(__file__).parents[2] / "docs" / "media.md").read_text()


def test_the_page_lists_the_kinds_that_are_decoded() -> None:
    kinds = set(re.findall(r"`((?:audio|video)/[a-z0-9]+)`", PAGE.partition("**Written")[0]))
    assert kinds == {"audio/silk", *_DEMUXERS}


def test_the_page_lists_the_formats_of_converted_voices() -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith("| a voice of another"))
    for name in VOICE_TYPES:
        assert name.upper().replace("OGG", "Ogg") in row


@pytest.mark.parametrize(
    ("prefix", "model"),
    [
        ("NEKRO_SPEECH__TRANSCRIBER__", TranscriberSettings()),
        ("NEKRO_DELIVERY__MEDIA__", DeliverySettings().media),
        ("NEKRO_DELIVERY__(?!MEDIA)", DeliverySettings()),
    ],
)
def test_the_page_lists_the_settings_and_their_defaults(prefix: str, model: Any) -> None:
    rows = re.findall(rf"^\| `{prefix}([A-Z_]+)` \| (\S+) \|", PAGE, re.MULTILINE)
    assert rows
    for name, default in rows:
        value = getattr(model, name.lower())
        assert default == (
            "unset" if value == "" else f"{value:g}" if isinstance(value, float) else str(value)
        )


def test_the_example_of_the_page_runs() -> None:
    code = PAGE.partition("```python\n")[2].partition("```")[0]
    imported, _, made = code.partition("\n\n")
    assert imported.startswith("from nekro_core.api.adapter import")
    names = {name: getattr(api, name) for name in ("Capabilities", "PictureLimits", "VoiceLimits")}
    can = eval(made, {**names, "Text": Text, "Image": Image, "Voice": Voice, "File": File})
    assert can.voice.formats == ("ogg", "mp3")
