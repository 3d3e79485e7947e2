"""The capabilities behind ``ctx.emoji``: stickers, which are stored in ``data/emoji`` with
descriptions and emotions."""

import base64
import hashlib
import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio

from nekro_core.compat.maibot.capabilities.llm import ask
from nekro_core.compat.maibot.capability import (
    Answer,
    CapabilityCall,
    CapabilityEntry,
    CapabilityError,
    success,
)
from nekro_core.compat.maibot.formats.results import decoded
from nekro_core.llm.model import ImagePart, PromptMessage, TextPart
from nekro_core.tools.content import ContentError, ImageContent, contents

_INDEX = "index.json"
_MOST = 500
_QUESTION = (
    "Describe this sticker in one short sentence, then a line with the feelings that it shows, "
    "separated by commas."
)

Entry = dict[str, Any]


async def register(call: CapabilityCall) -> Answer:
    """``emoji.register``: adds a sticker. If no description is given and the bot's model accepts
    pictures, the model writes the description."""
    data = decoded(call.text("emoji_base64", needed=True))
    try:
        encoded = base64.b64encode(data or b"").decode()
        (picture,) = contents(
            [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{encoded}"}}]
        )
    except ContentError as error:
        raise CapabilityError(f"emoji.register: {error}") from None
    assert isinstance(picture, ImageContent)
    number = hashlib.sha256(picture.data).hexdigest()[:32]
    entries = await _read(call)
    if number not in entries and len(entries) >= _MOST:
        raise CapabilityError(f"emoji.register: there are {_MOST} stickers already; delete some")
    described = {
        "description": call.text("description"),
        "emotion": call.args.get("emotion") or [],
    }
    model = call.bot.services.model
    if not described["description"] and model is not None and model.profile.vision:
        message = PromptMessage(
            "user", (TextPart(_QUESTION), ImagePart(picture.data, picture.mime))
        )
        words = str((await ask(call, (message,)))["response"]).strip()
        first, _, feelings = words.partition("\n")
        described = {
            "description": first,
            "emotion": [each.strip() for each in feelings.split(",") if each.strip()],
        }
    hooked = await call.hooks.hook(
        "emoji.register.after_build_description", {"emoji_hash": number, **described}
    )
    if hooked.aborted:
        raise CapabilityError("emoji.register: a plugin's hook refused it")
    ending = picture.mime.rpartition("/")[2]
    entry = {**hooked.kwargs, "file": f"{number}.{ending}", "hash": number}
    folder = _folder(call)
    await anyio.Path(folder).mkdir(parents=True, exist_ok=True)
    await anyio.Path(folder / entry["file"]).write_bytes(picture.data)
    await _write(call, {**entries, number: entry})
    return success(hash=number, description=entry["description"], emotion=entry["emotion"])


async def delete(call: CapabilityCall) -> Answer:
    """``emoji.delete``: deletes a sticker."""
    number, entries = call.text("emoji_hash", needed=True), await _read(call)
    entry = entries.pop(number, None)
    if entry is None:
        raise CapabilityError(f"emoji.delete: there is no sticker {number!r}")
    await anyio.Path(_folder(call) / entry["file"]).unlink(missing_ok=True)
    await _write(call, entries)
    return success(hash=number)


async def random_emoji(call: CapabilityCall) -> Answer:
    """``emoji.get_random``: some stickers, chosen at random."""
    entries = list((await _read(call)).values())
    wanted = min(call.number("count", 5, 50), len(entries))
    chosen = random.sample(entries, wanted)
    return success(emojis=[await _shown(call, each) for each in chosen])


async def all_emoji(call: CapabilityCall) -> Answer:
    """``emoji.get_all``: all stickers."""
    return success(emojis=[await _shown(call, each) for each in (await _read(call)).values()])


async def by_description(call: CapabilityCall) -> Answer:
    """``emoji.get_by_description``: the sticker that fits a text best: its description and emotions
    contain the largest number of the text's pairs of adjacent characters. None if no sticker
    contains such a pair."""
    wanted = call.text("description", needed=True)
    before = await call.hooks.hook("emoji.maisaka.before_select", {"description": wanted})
    if before.aborted:
        return success(emoji=None)
    wanted = str(before.kwargs["description"]).casefold()
    pairs = {wanted[i : i + 2] for i in range(max(len(wanted) - 1, 1))}
    best: tuple[int, Entry] | None = None
    for entry in (await _read(call)).values():
        text = f"{entry['description']} {' '.join(map(str, entry['emotion']))}".casefold()
        score = sum(pair in text for pair in pairs)
        if score and (best is None or score > best[0]):
            best = (score, entry)
    if best is None:
        return success(emoji=None)
    shown = await _shown(call, best[1])
    after = await call.hooks.hook("emoji.maisaka.after_select", {"emoji": shown})
    return success(emoji=None if after.aborted else after.kwargs["emoji"])


async def count(call: CapabilityCall) -> Answer:
    """``emoji.get_count``: the number of stickers."""
    return success(count=len(await _read(call)))


async def info(call: CapabilityCall) -> Answer:
    """``emoji.get_info``: the number of stickers and the largest allowed number."""
    number = len(await _read(call))
    return success(info={"current_count": number, "max_count": _MOST, "available_emojis": number})


async def emotions(call: CapabilityCall) -> Answer:
    """``emoji.get_emotions``: all emotions that stickers have, sorted."""
    entries = (await _read(call)).values()
    return success(emotions=sorted({str(each) for entry in entries for each in entry["emotion"]}))


def _folder(call: CapabilityCall) -> Path:
    return call.bot.services.data_dir / "emoji"


async def _read(call: CapabilityCall) -> dict[str, Entry]:
    try:
        text = await anyio.Path(_folder(call) / _INDEX).read_text("utf-8")
        entries: dict[str, Entry] = json.loads(text)
    except (OSError, ValueError):
        return {}
    return entries


async def _write(call: CapabilityCall, entries: Mapping[str, Entry]) -> None:
    path = anyio.Path(_folder(call) / _INDEX)
    new_file = path.with_suffix(".new")
    await new_file.write_text(json.dumps(entries, ensure_ascii=False), "utf-8")
    await new_file.replace(path)


async def _shown(call: CapabilityCall, entry: Entry) -> Entry:
    try:
        data = await anyio.Path(_folder(call) / entry["file"]).read_bytes()
    except OSError:
        data = b""
    return {
        "base64": base64.b64encode(data).decode(),
        "description": entry["description"],
        "emotion": ",".join(map(str, entry["emotion"])),
        "hash": entry["hash"],
    }


TABLE: Mapping[str, CapabilityEntry] = {
    "emoji.get_random": CapabilityEntry(random_emoji),
    "emoji.get_by_description": CapabilityEntry(by_description),
    "emoji.get_count": CapabilityEntry(count),
    "emoji.get_info": CapabilityEntry(info),
    "emoji.get_emotions": CapabilityEntry(emotions),
    "emoji.get_all": CapabilityEntry(all_emoji),
    "emoji.register": CapabilityEntry(
        register, "works; described by a model that sees, if there is one"
    ),
    "emoji.delete": CapabilityEntry(delete),
}
