"""Writes the first message of the user in a prompt: the sections from memory, the history with its
pictures, what plugins add, and the task."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from nekro_core.agent.prompt.quoting import escape_own_marks, quote_lines
from nekro_core.agent.prompt.sources import OWN, PromptSources, ShownRecord
from nekro_core.agent.prompt.steps import shown_records
from nekro_core.agent.prompt.transcript import media_of, person_label
from nekro_core.agent.prompt.view import PromptView
from nekro_core.agent.settings import PromptSettings
from nekro_core.chat import Author, ChatKind, Image, Record
from nekro_core.llm.model import ImagePart, Part, PromptMessage, TextPart
from nekro_core.llm.tokens import IMAGE_TOKENS, estimate_tokens
from nekro_core.store.decisions import DecisionReason

_CAPTION_CHARS = 800
"""Maximum number of characters of a shown caption (another model's words about a picture)."""
_MEMORY_CHARS = 12_000
"""Maximum number of characters of a summary or of the notes. The bot's memory keeps to a smaller
budget. This limit is for another `MemoryReader`, which may write more."""
_LEAST_MESSAGE = 200
"""To save space, messages are shortened, but not below this number of characters."""
_RECORD_TOKENS = 120
"""Maximum number of tokens of a record with `_LEAST_MESSAGE` characters."""
_LISTED = 8
"""Maximum number of pictures that the note about missing pictures names."""
_OTHERS_WAIT = "[note] LATER marks what others ask: their turns come right after this one."

_UNSURE = frozenset({DecisionReason.NAMED.value})
"""If a message is answered for one of these reasons, it may not be meant for the bot."""
_IF_MEANT = " if it is meant for you; if you are only spoken about, stay silent."


@dataclass(frozen=True, slots=True)
class _ShownPicture:
    """A picture that the prompt shows. ``index`` counts the media of its record from 0."""

    name: str
    index: int
    part: ImagePart


def opening_message(
    past: Sequence[Record],
    view: PromptView,
    settings: PromptSettings,
    room: int,
    sources: PromptSources,
) -> PromptMessage:
    """Write the message. ``past`` are the records from before the turn's first step. ``room`` is
    the maximum number of tokens of the message."""
    memory, end = _memory(view, sources), _end(past, view, settings, sources)
    pictures, missing = _chosen_pictures(past, view, settings)
    if missing:
        end.insert(0, missing)
        sources.add_text("picture", missing, scope=OWN)
    room -= sum(map(estimate_tokens, (*memory, *end)))
    room -= IMAGE_TOKENS * sum(map(len, pictures.values()))
    captions = _captions(past, view)
    room -= sum(map(estimate_tokens, captions.values()))
    shown = _history(past, view, settings, room)
    sources.add_records(shown)
    text = [*memory, ""] if memory else []
    parts: list[Part] = []
    more = {*view.ran, *captions, *pictures}
    for each in shown:
        if each.seq not in more:
            text.append(each.line)
            continue
        if block := view.ran.get(each.seq):
            text.append(block)
            sources.add_text("ran", block)
        text.append(each.line)
        if caption := captions.get(each.seq):
            text.append(caption)
            sources.add_text("picture", caption)
        for picture in pictures.get(each.seq, ()):
            label = f"[picture] {picture.name}:"
            sources.add_text("picture", label, scope=OWN)
            sources.pictures[id(picture.part.data)] = (each.seq, picture.index)
            parts += [TextPart("\n".join([*text, label])), picture.part]
            text = []
    return PromptMessage("user", (*parts, TextPart("\n".join([*text, "", *end]))))


def _memory(view: PromptView, sources: PromptSources) -> list[str]:
    """Return the sections from memory. They contain people's words, so they are quoted."""
    lines = []
    for mark, text in (
        ("[summary] of what was said before the messages below:", view.memory.summary),
        ("[notes] what you remember of this chat and its people:", view.memory.notes),
    ):
        if text.strip():
            lines.append(f"{mark}\n{quote_lines(text.strip(), _MEMORY_CHARS)}")
            sources.add_text(mark.partition("]")[0].removeprefix("["), lines[-1])
    return lines


def _end(
    past: Sequence[Record], view: PromptView, settings: PromptSettings, sources: PromptSources
) -> list[str]:
    """Return the lines after the history. They change with every turn."""
    lines = []
    for plugin, text in view.injections:
        lines.append(escape_own_marks(f"[{plugin}]\n{text}".strip()))
        sources.add_text(f"plugin {plugin}", lines[-1])
    now = f"[now] {datetime.fromtimestamp(view.now, view.zone):%Y-%m-%d %H:%M %A}"
    sources.add_text("now", now, scope=OWN)
    lines.append(now)
    if view.preface:
        lines.append(view.preface.text(settings.observation_chars))
        sources.add_text("before", lines[-1])
    task = [_task(past, view)]
    if any(record.seq in view.waiting for record in past):
        task.append(_OTHERS_WAIT)
    lines += task
    sources.add_text("task", "\n".join(task))
    return lines


def _task(past: Sequence[Record], view: PromptView) -> str:
    if not any(record.seq in view.unanswered for record in past):
        return "[task] Act on the newest lines above, if there is anything to do."
    sure = not all(view.reasons.get(seq) in _UNSURE for seq in view.unanswered)
    answer = "Answer what is marked NEW" + ("." if sure else _IF_MEANT)
    if view.asker.user_id and _is_shared(view):
        asks = "asks you" if sure else "wrote"
        return f"[task] {person_label(view.asker)} {asks}. {answer}"
    return f"[task] {answer}"


def _is_shared(view: PromptView) -> bool:
    """Return whether the prompt must say who asks. In a private chat with one person, it need
    not."""
    people = {record.sender.user_id for record in view.records if record.author is Author.PERSON}
    return view.chat_key.kind is not ChatKind.PRIVATE or len(people) > 1


def _history(
    past: Sequence[Record], view: PromptView, settings: PromptSettings, room: int
) -> list[ShownRecord]:
    """Return the lines of the newest records that fit. Unanswered records are included first. If
    necessary, all messages are shortened, so that one enormous message does not displace the
    others."""
    limit, marks = settings.message_chars, view.marks_of(past)
    while True:
        lines = shown_records(view, past, marks, limit)
        costs = [_cost(each, view) for each in lines]
        if sum(costs) <= room:
            return lines
        newest_first = range(len(lines) - 1, -1, -1)
        must = {i for i in newest_first if past[i].seq in view.unanswered} or {len(lines) - 1}
        left = room - sum(costs[i] for i in must if i >= 0)
        if left >= 0 or limit <= _LEAST_MESSAGE:
            break
        limit //= 2
    keep = set(must)
    for index in newest_first:
        if index in keep:
            continue
        left -= costs[index]
        if left < 0:
            break
        keep.add(index)
    if left < 0 and limit <= _LEAST_MESSAGE:
        # Even shortened, the unanswered messages do not all fit: keep the newest.
        keep = set(sorted(keep)[-max(room // _RECORD_TOKENS, 1) :])
    kept = [record for index, record in enumerate(past) if index in keep]
    return (
        lines if len(kept) == len(past) else shown_records(view, kept, view.marks_of(kept), limit)
    )


def _cost(shown: ShownRecord, view: PromptView) -> int:
    block = view.ran.get(shown.seq, "")
    return shown.tokens + 1 + (estimate_tokens(block) + 1 if block else 0)


def _chosen_pictures(
    past: Sequence[Record], view: PromptView, settings: PromptSettings
) -> tuple[Mapping[int, list[_ShownPicture]], str]:
    """Choose which pictures of people the prompt shows. Return these pictures by the numbers of
    their records, and a line that names the other pictures. The line is empty if all pictures are
    shown.

    If there are too many pictures, several of the oldest are dropped at once. Each time that a
    picture is dropped, the prompt changes from this place on, and a provider's cache is lost.
    """
    if not view.vision:
        return {}, ""
    # The types are looked at first, because the history can have hundreds of records.
    with_pictures = [record for record in past if Image in map(type, record.segments)]
    found = [(record, *each) for record in with_pictures for each in _pictures_of(record)]
    if not found:
        return {}, ""
    most, half = settings.images, max(settings.images // 2, 1)
    asked = sum(record.seq in view.unanswered for record, *_ in found)
    count = most if len(found) <= most else most - half + 1 + (len(found) - most - 1) % half
    count = min(max(count, asked), most)
    shown: dict[int, list[_ShownPicture]] = {}
    missing: list[str] = []
    for place, (record, name, index, path) in enumerate(found):
        part = view.pictures.get(path) if place >= len(found) - count else None
        if part is not None:
            shown.setdefault(record.seq, []).append(_ShownPicture(name, index, part))
        else:
            missing.append(name)
    return shown, _missing_line(missing)


def _captions(past: Sequence[Record], view: PromptView) -> dict[int, str]:
    """Return the captions of the records' pictures, by the records' numbers. A caption is another
    model's text. It is quoted, because it may repeat words that are written in the picture."""
    captions: dict[int, str] = {}
    for record in past if view.captions and not view.vision else ():
        blocks = [
            f"[picture] {name}, as another model describes it:\n"
            f"{quote_lines(view.captions[path], _CAPTION_CHARS)}"
            for name, _, path in _pictures_of(record)
            if path in view.captions
        ]
        if blocks:
            captions[record.seq] = "\n".join(blocks)
    return captions


def _pictures_of(record: Record) -> Iterator[tuple[str, int, str]]:
    """Yield the name in the prompt, the index among the media, and the path of each picture that a
    person sent. Pictures that the bot sent are not shown: its code made them and can read them
    again."""
    if record.author is not Author.PERSON:
        return
    pictures = {id(each.media) for each in record.segments if isinstance(each, Image)}
    if not pictures:
        return
    found = [(i, each) for i, each in enumerate(media_of(record)) if id(each) in pictures]
    for number, (index, media) in enumerate(found, 1):
        name = f"{number} of #{record.seq}" if len(found) > 1 else f"#{record.seq}"
        yield name, index, media.path


def _missing_line(named: Sequence[str]) -> str:
    if not named:
        return ""
    more = f" and {len(named) - _LISTED} more" if len(named) > _LISTED else ""
    places = f"{', '.join(named[-_LISTED:])}{more}"
    return f"[note] You do not see these pictures, only their paths: {places}."
