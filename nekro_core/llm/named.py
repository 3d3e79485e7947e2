"""Makes the models of the setting ``NEKRO_MODELS``, each when it is first used. The setting has
groups by name; a group has the settings of one model. Groups can change while the bot runs."""

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack

from nekro_core.llm.groups import ModelGroupSettings
from nekro_core.llm.http_model import HttpChatModel
from nekro_core.llm.model import ChatModel
from nekro_core.llm.replaceable import ReplaceableModel
from nekro_core.llm.settings import LLMSettings


class NamedModels:
    """Makes and finds models by the names of their groups. ``make`` makes the model of a group.
    Callers get the model that ``staged`` returns for it. The owner of this object must call
    `aclose`."""

    def __init__(
        self,
        groups: Mapping[str, ModelGroupSettings],
        *,
        make: Callable[[LLMSettings], ChatModel] = HttpChatModel,
    ) -> None:
        self._groups = _copies(groups)
        self._make = make
        self._made: dict[str, ReplaceableModel] = {}
        self._followers: list[Callable[[], None]] = []

    @property
    def groups(self) -> Mapping[str, ModelGroupSettings]:
        """The settings of all groups by name."""
        return self._groups

    def get(self, name: str) -> ChatModel | None:
        """Return the model of a group; None if there is no such group or its model does not answer
        chat requests."""
        if name not in self._groups:
            name = name.lower()
        settings = self._groups.get(name)
        if settings is None or not _answers_chats(settings):
            return None
        if name not in self._made:
            self._made[name] = ReplaceableModel(self._make(_own(settings)))
        return self._made[name]

    def listen(self, follower: Callable[[], None]) -> None:
        """Call ``follower`` after each change of the groups. ``follower`` must not raise."""
        self._followers.append(follower)

    async def replace(self, groups: Mapping[str, ModelGroupSettings]) -> None:
        """Use these groups from now on.

        The next request to a model that `get` has returned uses the new settings of its group.
        Running requests are finished with the old settings. The model of a removed group still
        answers the turns that began with it. Groups whose settings have not changed keep their
        connections.
        """
        old, self._groups = self._groups, _copies(groups)
        for follower in self._followers:
            follower()
        for name in [*self._made]:
            settings = self._groups.get(name)
            model = self._made[name]
            if settings is None or not _answers_chats(settings):
                del self._made[name]
                await model.retire()
            elif settings != old.get(name):
                await model.replace(self._make(_own(settings)))

    async def aclose(self) -> None:
        """Close the connections of all models."""
        async with AsyncExitStack() as closing:
            while self._made:
                closing.push_async_callback(self._made.popitem()[1].aclose)


def _copies(groups: Mapping[str, ModelGroupSettings]) -> dict[str, ModelGroupSettings]:
    """Copy the settings. `NamedModels.replace` compares new settings with these copies, since the
    caller may change its own objects."""
    return {name: settings.model_copy() for name, settings in groups.items()}


def _answers_chats(settings: ModelGroupSettings) -> bool:
    return settings.type == "chat" and settings.configured


def _own(settings: ModelGroupSettings) -> LLMSettings:
    """Return the part of a group's settings that a model needs."""
    # Leave unset fields unset, so that the published price and context apply.
    return LLMSettings(**settings.model_dump(include=_FIELDS, exclude_unset=True))


_FIELDS = set(LLMSettings.model_fields)
