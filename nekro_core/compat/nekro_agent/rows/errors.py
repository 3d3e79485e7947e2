"""The errors of queries and rows. Each of them is a subclass of an exception of Tortoise ORM,
because plugins catch those exceptions."""

from tortoise import exceptions as tortoise

from nekro_core.system.errors import NekroError


class QueryError(NekroError, tortoise.FieldError, ValueError):
    """A query names an unknown field or lookup. The text lists the known names."""


class DoesNotExist(NekroError, tortoise.DoesNotExist, LookupError):
    """``get`` matched no row."""


class MultipleObjectsReturned(NekroError, tortoise.MultipleObjectsReturned, LookupError):
    """``get`` matched several rows."""


class NotKept(NekroError, tortoise.OperationalError, NotImplementedError):
    """A plugin cannot make this change to a row. The text says why or what it can change."""
