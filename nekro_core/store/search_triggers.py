"""Makes the database triggers that note which indexed messages were changed or deleted.

Statements in many files recall, hide, edit, redact or erase messages, or delete them for their age.
A trigger notices each of these statements, in the same transaction. So words that a message no
longer has cannot stay in the search index. New messages fire no trigger, so storing them takes no
longer.
"""

TRIGGER_FUNCTION = "search_note_change"
"""The function that PostgreSQL's triggers call. Dropping the tables does not remove the
function."""
_CHANGED = "OLD.recalled <> NEW.recalled OR OLD.segments <> NEW.segments"
_NOTE = "INSERT INTO search_changes (chat_key, seq) VALUES (OLD.chat_key, OLD.seq);"

_SQLITE = (
    (
        "CREATE TRIGGER IF NOT EXISTS search_message_changed "
        f"AFTER UPDATE OF recalled, segments ON messages WHEN {_CHANGED} BEGIN {_NOTE} END"
    ),
    (
        "CREATE TRIGGER IF NOT EXISTS search_message_deleted "
        f"AFTER DELETE ON messages BEGIN {_NOTE} END"
    ),
)
_POSTGRES = (
    (
        f"CREATE OR REPLACE FUNCTION {TRIGGER_FUNCTION}() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN {_NOTE} RETURN NULL; END $$"
    ),
    "DROP TRIGGER IF EXISTS search_message_changed ON messages",
    (
        "CREATE TRIGGER search_message_changed AFTER UPDATE OF recalled, segments ON messages "
        f"FOR EACH ROW WHEN ({_CHANGED}) EXECUTE FUNCTION {TRIGGER_FUNCTION}()"
    ),
    "DROP TRIGGER IF EXISTS search_message_deleted ON messages",
    (
        "CREATE TRIGGER search_message_deleted AFTER DELETE ON messages "
        f"FOR EACH ROW EXECUTE FUNCTION {TRIGGER_FUNCTION}()"
    ),
)


def trigger_statements(dialect: str) -> tuple[str, ...]:
    """Return the statements that make the triggers. They may be run several times.

    Args:
        dialect: ``sqlite`` or ``postgres``, as Tortoise calls them.
    """
    return _SQLITE if dialect == "sqlite" else _POSTGRES
