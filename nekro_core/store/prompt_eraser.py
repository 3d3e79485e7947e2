"""Removes a person's words from what is stored about prompts.

A stored prompt is a recipe that refers to parts (`nekro_core.store.prompt_recipe`). The only words
of people in recipes are the names of chats; the person's id is replaced in them. Parts of a chat
may contain words of people: what plugins added to the prompt, what code printed, what tools
returned. It is not known whose words these are. So all parts of the chats in which the person wrote
are deleted; the viewer of prompts shows gaps in their place. Parts of other chats are deleted if
they contain the person's id, name or a line that the person wrote. In the chats in which the person
wrote, two more things are deleted: the recorded results of calls, which only replays need, and the
errors of models, which may quote a prompt.
"""

import json
from collections.abc import Collection, Iterable, Sequence

import anyio.to_thread

from nekro_core.chat import Text, Voice, decode_segments
from nekro_core.chat.redact import SHORTEST, RedactionTarget
from nekro_core.store.database import Database, Rows, SqlStatement
from nekro_core.store.person import Person, is_one_of, runs_woken_by
from nekro_core.store.prompt_recipe import decode_recipe, erased
from nekro_core.store.prompts import PromptRepository, UnknownPartForm, unpacked
from nekro_core.store.traces import PersonTraces

_SLICE = 500
"""Number of rows that one query reads."""
_WINDOW = 8
"""In other chats, this many characters from the beginning of each line of the person are looked
for. A shorter line is not looked for, because other people may have written the same line."""
_SHORTEST_NAME = 3
_ERASED = "(the error was erased together with a person's words)"
"""This text replaces the error of a request without a reply, because a provider may quote the
prompt in its error."""


class PromptEraser:
    """Deletes and rewrites rows of ``prompts`` and ``prompt_parts``."""

    def __init__(self, database: Database, prompts: PromptRepository) -> None:
        self._database = database
        self._prompts = prompts

    async def look(self, person: Person, traces: PersonTraces) -> "ErasedWords":
        """Read the person's words. Delete the prompts of their private chats, and the earlier
        versions of the messages in all their chats. Call it before the person's messages and turns
        are deleted."""
        versions = [
            SqlStatement(
                "DELETE FROM message_versions WHERE seq IN "
                "(SELECT seq FROM messages WHERE chat_key = ?)",
                (str(chat_key),),
            )
            for chat_key in traces.chats
        ]
        prompts = [
            SqlStatement(
                "DELETE FROM prompts WHERE turn_id IN (SELECT id FROM turns WHERE chat_key = ?)",
                (str(chat_key),),
            )
            for chat_key in traces.private
        ]
        if versions:
            await self._database.write(*versions, *prompts)
        theirs, values = is_one_of("instance", person.instances)
        runs, of_runs = runs_woken_by(person)
        rows = await self._database.read(
            "SELECT seq, author, segments FROM messages WHERE "
            f"({theirs} AND user_id = ? AND author = 'person') OR run_id IN ({runs})",
            *values,
            person.user_id,
            *of_runs,
        )
        return ErasedWords(rows)

    async def erase(
        self, traces: PersonTraces, forgotten: RedactionTarget, words: "ErasedWords"
    ) -> None:
        """Remove the person from the stored prompts and their parts. May be repeated."""
        statements = [
            SqlStatement("DELETE FROM prompt_parts WHERE chat_key = ?", (str(chat_key),))
            for chat_key in traces.chats
        ]
        statements += [
            SqlStatement(
                "UPDATE tool_calls SET result = '' WHERE result <> '' AND run_id IN "
                "(SELECT run_id FROM runs WHERE chat_key = ?)",
                (str(chat_key),),
            )
            for chat_key in traces.shared
        ]
        if statements:
            await self._database.write(*statements)
        for chat_key in traces.shared:
            await self._rewrite(str(chat_key), words.seqs, forgotten)
        await self._search_parts(traces, forgotten, words)
        self._prompts.forget_stored()

    async def _rewrite(self, chat_key: str, gone: Collection[int], target: RedactionTarget) -> None:
        turn = 0
        while True:
            turns = await self._database.read(
                "SELECT id FROM turns WHERE chat_key = ? AND id > ? ORDER BY id LIMIT ?",
                chat_key,
                turn,
                _SLICE,
            )
            if not turns:
                return
            marks = ", ".join("?" * len(turns))
            rows = await self._database.read(
                f"SELECT id, recipe, times, error FROM prompts WHERE turn_id IN ({marks})",
                *(row["id"] for row in turns),
            )
            statements = await anyio.to_thread.run_sync(_rewritten, rows, gone, target)
            if statements:
                await self._database.write(*statements)
            turn = turns[-1]["id"]

    async def _search_parts(
        self, traces: PersonTraces, forgotten: RedactionTarget, words: "ErasedWords"
    ) -> None:
        after = ""
        while True:
            rows = await self._database.read(
                "SELECT hash, chat_key, data FROM prompt_parts WHERE hash > ? "
                "ORDER BY hash LIMIT ?",
                after,
                _SLICE,
            )
            names = [each for each in traces.names if len(each) >= _SHORTEST_NAME]
            found = await anyio.to_thread.run_sync(_containing, rows, forgotten, names, words)
            if found:
                marks = ", ".join("?" * len(found))
                sql = f"DELETE FROM prompt_parts WHERE hash IN ({marks})"
                await self._database.write(SqlStatement(sql, tuple(found)))
            if len(rows) < _SLICE:
                return
            after = rows[-1]["hash"]


class ErasedWords:
    """The numbers of the records that are deleted, and the beginnings of the person's lines."""

    def __init__(self, rows: Rows) -> None:
        self.seqs = frozenset(int(row["seq"]) for row in rows)
        self.beginnings = frozenset(
            line[:_WINDOW]
            for row in rows
            if row["author"] == "person"
            for line in _lines(row["segments"])
            if len(line) >= _WINDOW
        )

    def said_in(self, text: str) -> bool:
        """Return whether one of the lines begins somewhere in the text."""
        known = self.beginnings
        return bool(known) and any(
            text[at : at + _WINDOW] in known for at in range(len(text) - _WINDOW + 1)
        )


def _lines(segments: str) -> Iterable[str]:
    for segment in decode_segments(segments):
        if isinstance(segment, Text | Voice):
            yield from (line.strip() for line in segment.text.splitlines())


def _rewritten(
    rows: Rows, gone: Collection[int], target: RedactionTarget
) -> Sequence[SqlStatement]:
    statements = []
    for row in rows:
        recipe = decode_recipe(row["recipe"])
        after = erased(recipe, gone, target.text).encode() if recipe is not None else ""
        times = without_errors(row["times"])
        error = _ERASED if row["error"] else ""
        if (after, times, error) != (row["recipe"], row["times"], row["error"]):
            sql = "UPDATE prompts SET recipe = ?, times = ?, error = ? WHERE id = ?"
            statements.append(SqlStatement(sql, (after, times, error, row["id"])))
    return statements


def without_errors(times: str) -> str:
    """Return the times of a step without the errors of the models that failed. A provider may quote
    the prompt in its error."""
    if '"passed"' not in times:
        return times
    found = json.loads(times)
    found["passed"] = [[name, reason, "", *rest] for name, reason, _, *rest in found["passed"]]
    return json.dumps(found, separators=(",", ":"))


def _containing(
    rows: Rows, forgotten: RedactionTarget, names: Sequence[str], words: ErasedWords
) -> list[str]:
    """Return the hashes of the parts that contain the person's id, name or words."""
    found = []
    ids = [each for each in forgotten.ids if len(each) >= SHORTEST]
    for row in rows:
        try:
            text = unpacked(row["data"]).decode("utf-8", "replace")
        except UnknownPartForm:  # The part cannot be read, so it may have the person's words.
            found.append(str(row["hash"]))
            continue
        named = any(each in text for each in ids) and forgotten.text(text) != text
        if row["chat_key"]:  # A part without a chat has no words of people.
            named = named or any(each in text for each in names) or words.said_in(text)
        if named:
            found.append(str(row["hash"]))
    return found
