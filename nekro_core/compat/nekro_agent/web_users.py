"""Functions for the FastAPI routes of plugins: who requests a page, and the form of an answer.

The bot's web server asks for a login before every page of a plugin, and only the operator can log
in. So the person who requests a page is the operator.
"""

import inspect
from collections.abc import Awaitable, Callable
from enum import IntEnum
from functools import wraps
from typing import Any, Self

from fastapi import HTTPException
from pydantic import BaseModel
from starlette.requests import HTTPConnection

from nekro_core.compat.nekro_agent.rows.users import DBUser
from nekro_core.plugins.authoring.web import PAGE_OF

__all__ = [
    "LegacyRole",
    "Ret",
    "check_role",
    "get_current_active_user",
    "get_current_super_user",
    "get_current_user",
    "require_role",
]


class LegacyRole(IntEnum):
    """The roles of people, which are the numbers in `DBUser.perm_level`."""

    Guest = 0
    User = 1
    Admin = 2
    Super = 3


async def get_current_user(connection: HTTPConnection) -> DBUser:
    """A dependency for FastAPI: the operator's row. Raises `HTTPException` 401 outside of a
    plugin's pages, because no login was checked there."""
    if PAGE_OF not in connection.scope:
        raise HTTPException(
            401,
            "nobody is logged in here: get_current_user works in the routes of "
            "@plugin.mount_router(), for which the bot asks for a login",
        )
    return DBUser.operator()


get_current_active_user = get_current_super_user = get_current_user


def check_role(user: DBUser, role: LegacyRole) -> bool:
    """Return True if a person has this role or a higher one."""
    return user.perm_level >= role


def require_role(role: LegacyRole) -> Callable[[Callable[..., Any]], Callable[..., Awaitable[Any]]]:
    """Decorator for a route with a parameter that is a `DBUser`. The route raises `HTTPException`
    403 for a person who has neither this role nor a higher one."""

    def decorate(route: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
        @wraps(route)
        async def checked(*args: Any, **kwargs: Any) -> Any:
            given = [*args, *kwargs.values()]
            user = next((each for each in given if isinstance(each, DBUser)), None)
            if user is None or not check_role(user, role):
                raise HTTPException(403, f"this needs the role {role.name}")
            answer = route(*args, **kwargs)
            return await answer if inspect.isawaitable(answer) else answer

        # If annotations are texts, FastAPI would look up their names in this module and not in the
        # module of the route. So they are evaluated here.
        checked.__dict__["__signature__"] = inspect.signature(route, eval_str=True)
        return checked

    return decorate


class Ret(BaseModel):
    """An answer of a route. ``code`` is 200 for success, 400 for a wrong request and 500 for an
    error."""

    code: int
    msg: str = ""
    data: Any = None

    @classmethod
    def success(cls, msg: str = "", data: Any = None) -> Self:
        """Make the answer to a request that succeeded."""
        return cls(code=200, msg=msg, data=data)

    @classmethod
    def fail(cls, msg: str = "", data: Any = None) -> Self:
        """Make the answer to a request that is wrong."""
        return cls(code=400, msg=msg, data=data)

    @classmethod
    def error(cls, msg: str = "", data: Any = None) -> Self:
        """Make the answer to a request that the plugin could not carry out."""
        return cls(code=500, msg=msg, data=data)
