"""Reads the presets of well-known providers from ``providers.toml``."""

import tomllib
from dataclasses import dataclass
from importlib.resources import files

from nekro_core.llm.wire_format import ModelProtocol


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderPreset:
    """What an operator needs for an endpoint of a provider.

    Attributes:
        key: The name of the preset, which is stable.
        name: The provider's name for people.
        base_url: The address of the API.
        keys: The page where the provider hands out keys; empty if no key is needed.
        docs: The provider's documentation.
        models: Examples of models. The first model is a good choice for a chat bot.
        protocol: The protocol of the API.
        vision: Whether all examples see pictures.
        grammar: Whether the endpoint accepts a GBNF grammar.
        local: Whether the provider is a program on the operator's own machine. If so, ``base_url``
            has the port that the program uses by default.
    """

    key: str
    name: str
    base_url: str
    docs: str
    keys: str = ""
    models: tuple[str, ...] = ()
    protocol: ModelProtocol = ModelProtocol.CHAT
    vision: bool = False
    grammar: bool = False
    local: bool = False


def provider_presets() -> tuple[ProviderPreset, ...]:
    """Return the presets in the order in which an operator should see them."""
    text = files(__package__).joinpath("providers.toml").read_text("utf-8")
    return tuple(
        ProviderPreset(
            key=key,
            **{
                **entry,
                "models": tuple(entry.get("models", ())),
                "protocol": ModelProtocol(entry.get("protocol", ModelProtocol.CHAT)),
            },
        )
        for key, entry in tomllib.loads(text).items()
    )


def preset_of(base_url: str) -> ProviderPreset | None:
    """Return the preset with this address; None if the address belongs to no preset. If two local
    programs usually have the same port, the first preset is returned."""
    wanted = base_url.strip().rstrip("/")
    return next((each for each in provider_presets() if each.base_url == wanted), None)
