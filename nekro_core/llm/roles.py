"""Names the roles of models, and defines how other rooms get the model of a role.

A role is a kind of work for which a model is asked. The operator configures the models of each role
(``NEKRO_ROLES__*``). If a role has no models, its work is not done; the models of other roles do
not do it instead. Only the role ``chat`` always has a model.

Example: ``model = roles.model(ModelRole.QUICK)`` returns None if there is no such model. Otherwise
``async with model.stream(request)`` asks it. The call raises the errors of `nekro_core.llm.model`.
If the role's budget is used up, `QuotaExceeded` is raised.
"""

from enum import StrEnum
from typing import Protocol

from nekro_core.llm.model import ChatModel, Price


class ModelRole(StrEnum):
    """The kind of work for which a model is asked."""

    CHAT = "chat"
    """The model answers in chats."""
    QUICK = "quick"
    """The model does background work: summaries, notes, decisions whether to answer."""
    VISION = "vision"
    """The model describes pictures for a chat model that does not see them."""
    EMBED = "embed"
    """The model turns texts into vectors."""
    HEAR = "hear"
    """The model turns voice into text."""
    SPEAK = "speak"
    """The model turns text into voice."""
    DRAW = "draw"
    """The model makes pictures."""


class RoleModels(Protocol):
    """The models of the roles. They can change while the bot runs, so get the model again for each
    piece of work."""

    def model(self, role: ModelRole) -> ChatModel | None:
        """Return the model of a role; None if the role is not configured, or if its models do not
        answer chat requests (``embed``, ``hear``, ``speak``, ``draw``). If the role has several
        models, the returned model is a chain: if one of them fails, it asks the next. Its
        ``profile`` is the profile of the model that would be asked first now."""

    def max_context(self, role: ModelRole) -> int | None:
        """Return how many tokens prompt and reply may have together, so that they fit each model of
        the role; None if the role has no model."""

    def price(self, role: ModelRole) -> Price | None:
        """Return the price of the model that would be asked first now; None if the role has no
        model. Its ``source`` says whether it is known."""
