"""The tables of the operator: the audit log, people and logins of the console, edited texts."""

from tortoise import fields
from tortoise.indexes import Index
from tortoise.models import Model

from nekro_core.store.limits import MAX_ID


class AuditLogTable(Model):
    """One action of an operator. ``old``, ``new`` and the parameters are JSON. ``outcome`` is empty
    while the action runs."""

    id = fields.BigIntField(primary_key=True)
    at = fields.FloatField()
    ended = fields.FloatField()
    actor = fields.CharField(max_length=MAX_ID)
    role = fields.CharField(max_length=16)
    origin = fields.CharField(max_length=16)
    address = fields.CharField(max_length=64)
    action = fields.CharField(max_length=128)
    parameters = fields.TextField()
    subject = fields.CharField(max_length=MAX_ID)
    old = fields.TextField()
    new = fields.TextField()
    outcome = fields.CharField(max_length=16)
    error = fields.TextField()
    undo_action = fields.CharField(max_length=128)
    undo_parameters = fields.TextField()
    undone_by = fields.BigIntField()

    class Meta:
        table_description = "One action of an operator, with the values before and after it."
        table = "audit_log"
        indexes = (
            Index(fields=("subject", "id"), name="audit_subject_id"),
            Index(fields=("actor", "id"), name="audit_actor_id"),
        )


class ConsolePersonTable(Model):
    """A person who may open the console. ``name_key`` is the name in the form in which names are
    compared. ``totp_step`` is the time step of the newest code that was used. An empty text means
    that there is no password or no second factor."""

    id = fields.IntField(primary_key=True)
    name = fields.CharField(max_length=64)
    name_key = fields.CharField(max_length=MAX_ID, unique=True)
    role = fields.CharField(max_length=16)
    state = fields.CharField(max_length=16)
    password_hash = fields.TextField()
    totp_secret = fields.TextField()
    totp_pending = fields.TextField()
    totp_step = fields.BigIntField()
    created = fields.FloatField()

    class Meta:
        table_description = "A person who may open the console, with role, password and code."
        table = "console_people"


class ConsoleRecoveryCodeTable(Model):
    """A code that works once instead of the second factor. Only its hash is stored."""

    id = fields.IntField(primary_key=True)
    person_id = fields.IntField()
    code_hash = fields.CharField(max_length=64)

    class Meta:
        table_description = "The hash of a code that works once instead of the second factor."
        table = "console_recovery_codes"
        unique_together = (("person_id", "code_hash"),)


class ConsoleInvitationTable(Model):
    """A link with which a person chooses a password. It works once."""

    id = fields.IntField(primary_key=True)
    person_id = fields.IntField(unique=True)
    token_hash = fields.CharField(max_length=64, unique=True)
    expires = fields.FloatField()

    class Meta:
        table_description = "A link with which a person chooses a password. It works once."
        table = "console_invitations"


class ConsoleSessionTable(Model):
    """A browser that is logged in. Only the hash of its cookie is stored."""

    id = fields.IntField(primary_key=True)
    person_id = fields.IntField(db_index=True)
    session_hash = fields.CharField(max_length=64, unique=True)
    created = fields.FloatField()
    last_used = fields.FloatField()
    expires = fields.FloatField()
    address = fields.CharField(max_length=64)
    user_agent = fields.CharField(max_length=256)

    class Meta:
        table_description = "A browser that is logged in. Only the hash of its cookie is stored."
        table = "console_sessions"


class ConsoleTokenTable(Model):
    """A token of the HTTP API. ``prefix`` is its beginning, which is not secret. ``scopes`` are
    separated by spaces. ``expires`` and ``last_used`` are 0 for never."""

    id = fields.IntField(primary_key=True)
    person_id = fields.IntField(db_index=True)
    token_hash = fields.CharField(max_length=64, unique=True)
    prefix = fields.CharField(max_length=32)
    name = fields.CharField(max_length=64)
    scopes = fields.TextField()
    created = fields.FloatField()
    expires = fields.FloatField()
    last_used = fields.FloatField()

    class Meta:
        table_description = "A token of the HTTP API. Only its hash is stored."
        table = "console_tokens"


class DocumentTable(Model):
    """A revision of a text that the operator edits. The revision with the highest ``number`` is the
    current one. If it is ``removed``, there is no such document now."""

    id = fields.BigIntField(primary_key=True)
    name = fields.CharField(max_length=200)
    number = fields.BigIntField()
    text = fields.TextField()
    saved = fields.FloatField()
    removed = fields.BooleanField(default=False, db_default=False)

    class Meta:
        table_description = "A revision of a text that the operator edits."
        table = "documents"
        unique_together = (("name", "number"),)
