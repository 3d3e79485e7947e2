"""Shows the language models, tests endpoints, and adds, changes and removes models."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Protocol, runtime_checkable

from pydantic import Field, JsonValue, SecretStr, ValidationError

from nekro_core.llm.chains import ModelChains
from nekro_core.llm.groups import ModelGroupSettings
from nekro_core.llm.known_prices import (
    EffectivePrice,
    KnownModel,
    effective_context,
    effective_price,
    known_model,
)
from nekro_core.llm.probe import EndpointReport, ProbeResult, ProbeStep
from nekro_core.llm.providers import ProviderPreset, preset_of, provider_presets
from nekro_core.llm.settings import LLMSettings
from nekro_core.operator.actions import NO_PROGRESS, Area, Progress, action, query
from nekro_core.operator.audit import AuditLog, Change, UndoCall
from nekro_core.operator.errors import ChangedMeanwhile, InvalidParameters, NoSuchItem
from nekro_core.operator.masks import masked
from nekro_core.operator.model_roles import RoleView, role_views
from nekro_core.operator.roles import AccessRole, Actor
from nekro_core.operator.settings import SettingsBook, written

DEFAULT = "default"
"""The name of the bot's default model. If the settings give the default model no address, it is the
embedded model."""

ChainName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
"""A name of a model in a chain."""

GroupName = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[a-z0-9][a-z0-9_-]*$")]
"""The name of a model group. It has only lower case, because names from environment variables are
converted to lower case."""


class ModelsInForce(Protocol):
    """The models of the running bot (`nekro_core.app.models.ModelRegistry`)."""

    @property
    def llm(self) -> LLMSettings:
        """The settings of the default model."""

    @property
    def groups(self) -> Mapping[str, ModelGroupSettings]:
        """The settings of the model groups by name."""

    @property
    def chains(self) -> ModelChains:
        """The chains of models."""


@runtime_checkable
class ProbeProgress(Progress, Protocol):
    """Receives the progress of a test, and the result of each step as soon as the step is done."""

    def found(self, result: ProbeResult) -> None:
        """Take the result of a step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelView:
    """One model.

    Attributes:
        group: The name of its group; ``default`` for the default model.
        fields: Its settings by name, without the key. Settings that nobody has set are left out.
        embedded: Whether it is the embedded model.
        has_key: Whether a key is set. The key itself is never shown.
        provider: The name of the well-known provider at this address; empty if it is none.
        price: Its price, and where the price comes from.
        context_tokens: The largest number of tokens of prompt and reply.
        context_published: Whether ``context_tokens`` is the provider's published number, because no
            setting gives one.
    """

    group: str
    fields: Mapping[str, Any]
    embedded: bool
    has_key: bool
    provider: str
    price: EffectivePrice
    context_tokens: int
    context_published: bool = False


class Models(Area):
    """The models of the bot.

    Args:
        audit: The audit log.
        models: The models in force.
        book: Writes the settings.
    """

    name = "models"

    def __init__(
        self,
        audit: AuditLog,
        models: ModelsInForce,
        book: SettingsBook,
    ) -> None:
        super().__init__(audit)
        self._models = models
        self._book = book

    @query(role=AccessRole.VIEWER)
    async def presets(self, actor: Actor) -> list[ProviderPreset]:  # noqa: ARG002
        """List well-known providers: address, where to get a key, and examples of models."""
        return [*provider_presets()]

    @query(role=AccessRole.VIEWER)
    async def all(self, actor: Actor) -> list[ModelView]:
        """List the default model and all model groups. A viewer sees stars in place of what looks
        like a secret, for example the password of a proxy."""
        groups = {DEFAULT: self._models.llm, **self._models.groups}
        views = [await _view(name, settings) for name, settings in groups.items()]
        if actor.role.allows(AccessRole.OPERATOR):
            return views
        return [replace(each, fields=masked(dict(each.fields))) for each in views]

    @query(role=AccessRole.VIEWER)
    async def roles(self, actor: Actor) -> list[RoleView]:  # noqa: ARG002
        """List the roles. For each role, list its models in the order in which they are asked, and
        say which models cool down because they failed."""
        return role_views(self._models.chains)

    @action(role=AccessRole.OPERATOR)
    async def set_role(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        role: Literal["chat", "quick", "vision", "embed", "hear", "speak", "draw", "saving"],
        names: Annotated[list[ChainName], Field(max_length=16)],
    ) -> Change[RoleView]:
        """Set which models answer for a role. The next request asks them.

        Args:
            role: The role, or ``saving`` for the models that answer when little is left of a daily
                budget.
            names: The names of the groups in the order in which they are asked; ``default`` is the
                bot's default model, ``embedded`` the embedded model on this machine. Without names,
                nothing does the work of the role; only for ``chat`` the default model answers.
        """
        old = next(each for each in role_views(self._models.chains) if each.role == role)
        await written(self._book.set({f"roles.{role}": names or None}))
        new = next(each for each in role_views(self._models.chains) if each.role == role)
        undo = UndoCall(action="models.set_role", parameters={"role": role, "names": [*old.names]})
        return Change(
            result=new, subject=role, old={"names": [*old.names]}, new={"names": names}, undo=undo
        )

    @query(role=AccessRole.VIEWER)
    async def known(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        model: Annotated[str, Field(min_length=1, max_length=200)],
        base_url: str = "",
    ) -> KnownModel | None:
        """Get what is published about a model: its list price and the size of its context. The bot
        has this data; nothing is fetched.

        Args:
            model: The name as the provider writes it.
            base_url: The address of the endpoint. Different providers may charge different prices
                for the same model.
        """
        return await known_model(model, base_url)

    @action(role=AccessRole.OPERATOR)
    async def test(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        group: GroupName | None = None,
        fields: dict[str, JsonValue] | None = None,
        api_key: SecretStr | None = None,
        progress: Progress = NO_PROGRESS,
    ) -> Change[EndpointReport]:
        """Test an endpoint: whether it can be reached, accepts the key and knows the model; how
        fast it is; whether the model sees pictures and calls functions; and how long a prompt may
        be. The test sends three small requests, which may cost money.

        Args:
            group: A saved model. Its settings are used if they are not in ``fields``.
            fields: The settings to test, by name. They need not be saved.
            api_key: The key. Without it, the saved key is used if the address and the proxy are the
                saved ones.
        """
        # The code of the tests takes 10 ms to import, and few people test.
        from nekro_core.llm.probe.endpoint import probe_endpoint  # noqa: PLC0415

        settings = self._merged(group, fields or {}, api_key)
        if not settings.configured:
            raise InvalidParameters({"fields.base_url": "name the address of an API to test"})
        steps = [*ProbeStep]

        def tell(result: ProbeResult) -> None:
            progress.report(
                result.text,
                done=steps.index(result.step) + 1,
                total=len(steps),
                code=result.code and f"probe.{result.code}",
                **result.values,
            )
            if isinstance(progress, ProbeProgress):
                progress.found(result)

        report = await probe_endpoint(settings, tell=tell)
        subject = f"{settings.model} at {settings.base_url}"
        verdicts = {each.step.value: each.verdict.value for each in report.steps}
        return Change(result=report, subject=subject, new=verdicts)

    @action(role=AccessRole.OPERATOR)
    async def put(
        self,
        actor: Actor,  # noqa: ARG002
        *,
        group: GroupName,
        fields: dict[str, JsonValue],
        api_key: SecretStr | None = None,
        expected: dict[str, JsonValue] | None = None,
    ) -> Change[ModelView]:
        """Add a model, or change its settings. Chats and plugins use the new settings at once;
        running requests are finished with the old settings.

        Args:
            group: The name of the group; ``default`` for the default model.
            fields: The settings by name. Settings that are not named keep their values. The value
                null removes a setting.
            api_key: The key. If it is not given, the saved key is kept; an empty text removes the
                saved key.
            expected: The settings that the person has seen, as `ModelView.fields` has them; empty
                for a new model. If they have changed since, nothing is changed.
        """
        old = self._saved(group)
        if expected is not None and expected != (_shown(old) if old is not None else {}):
            raise ChangedMeanwhile(
                f"somebody else has changed the model {group!r} since you opened it: "
                "look at it again, then repeat"
            )
        settings = self._merged(group if old is not None else None, fields, api_key)
        if not settings.configured:
            raise InvalidParameters({"fields.base_url": "name the address of the model's API"})
        before = _shown(old) if old is not None else {}
        prefix = _prefix(group)
        values: dict[str, Any] = {f"{prefix}{name}": value for name, value in fields.items()}
        if api_key is not None:
            values[f"{prefix}api_key"] = api_key.get_secret_value() or None
        await written(self._book.set(values))
        undo: UndoCall | None = UndoCall(action="models.remove", parameters={"group": group})
        if old is not None and old.configured:
            back = {name: before.get(name) for name in fields}
            undo = UndoCall(action="models.put", parameters={"group": group, "fields": back})
        if api_key is not None and old is not None:
            undo = None  # the log does not have the old key
        return Change(
            result=await _view(group, settings),
            subject=group,
            old=before or None,
            new=_shown(settings),
            undo=undo,
        )

    @action(role=AccessRole.OPERATOR)
    async def remove(self, actor: Actor, *, group: GroupName) -> Change[None]:  # noqa: ARG002
        """Remove a model. Chats that name it use the default model. If the default model is
        removed, the embedded model answers.

        Args:
            group: The name of the group; ``default`` for the default model.
        """
        old = self._saved(group)
        if old is None or not old.model_fields_set:
            raise NoSuchItem(f"there is no model {group!r} in the settings")
        prefix = _prefix(group)
        removed = dict.fromkeys(f"{prefix}{name}" for name in sorted(old.model_fields_set))
        await written(self._book.set(removed))
        undo = None
        if not old.api_key.get_secret_value():
            undo = UndoCall(action="models.put", parameters={"group": group, "fields": _shown(old)})
        return Change(result=None, subject=group, old=_shown(old), undo=undo)

    def _saved(self, group: str | None) -> LLMSettings | None:
        return self._models.llm if group == DEFAULT else self._models.groups.get(group or "")

    def _merged(
        self, group: str | None, fields: Mapping[str, Any], api_key: SecretStr | None
    ) -> ModelGroupSettings:
        """Return the settings of a group with the changes ``fields``, checked in the same way as
        the settings files."""
        old = self._saved(group)
        if group is not None and old is None:
            raise NoSuchItem(f"there is no model {group!r}")
        if "api_key" in fields:
            raise InvalidParameters({"fields.api_key": "give it as the parameter api_key"})
        values = {**(_shown(old) if old is not None else {}), **fields}
        values = {name: value for name, value in values.items() if value is not None}
        if api_key is not None:
            values["api_key"] = api_key
        elif old is not None and old.api_key.get_secret_value():
            proxy = str(values.get("proxy", ""))
            moved = str(values.get("base_url", "")).strip().rstrip("/") != old.base_url
            if moved or (proxy and proxy != old.proxy):
                # Otherwise a person could send the saved key to any address, or to any proxy, which
                # can read requests to an http address.
                raise InvalidParameters(
                    {
                        "api_key": "the saved key belongs to another address or proxy: write the "
                        "key again"
                    }
                )
            values["api_key"] = old.api_key
        try:
            return ModelGroupSettings.model_validate(values)
        except ValidationError as error:
            raise InvalidParameters(
                {
                    ".".join(("fields", *map(str, fault["loc"]))): fault["msg"].removeprefix(
                        "Value error, "
                    )
                    for fault in error.errors(include_input=False, include_url=False)
                }
            ) from None


def _prefix(group: str) -> str:
    return "llm." if group == DEFAULT else f"models.{group}."


def _shown(settings: LLMSettings) -> dict[str, Any]:
    """Return the settings that somebody has set, without the key."""
    return settings.model_dump(mode="json", exclude_unset=True, exclude={"api_key"})


async def _view(group: str, settings: LLMSettings) -> ModelView:
    preset = preset_of(settings.base_url) if settings.configured else None
    context, published = await effective_context(settings)
    return ModelView(
        group=group,
        fields=_shown(settings),
        embedded=group == DEFAULT and not settings.configured,
        has_key=bool(settings.api_key.get_secret_value()),
        provider=preset.name if preset else "",
        price=await effective_price(settings),
        context_tokens=context,
        context_published=published,
    )
