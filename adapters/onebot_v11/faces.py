"""Finds the names of QQ's small faces (emoji), and the text of a JSON card."""

import json
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

_MOST_CARD = 100_000
"""Maximum number of characters of a card that is read as JSON."""


def face_name(data: Mapping[str, Any]) -> str:
    """Return the name of a face: the name that the implementation gives, or else the name of the
    face's id. Empty if both are unknown."""
    raw = data.get("raw")
    told = raw.get("faceText") if isinstance(raw, Mapping) else None
    if isinstance(told, str) and told.strip("/ "):
        return told.strip("/ ")
    return str(_names().get(str(data.get("id", "")), ""))


@cache
def _names() -> Mapping[str, Any]:
    """Return the names by their ids. The file is read when the first face arrives."""
    return tomllib.loads(Path(__file__).with_name("faces.toml").read_text(encoding="utf-8"))


def card_words(data: Mapping[str, Any]) -> str:
    """Return the words that QQ's list of chats shows for a JSON card; empty if there are none."""
    card = data.get("data")
    if isinstance(card, str) and len(card) <= _MOST_CARD:
        try:
            card = json.loads(card)
        except (ValueError, RecursionError):
            return ""
    told = card.get("prompt") if isinstance(card, Mapping) else None
    return told.strip() if isinstance(told, str) else ""
