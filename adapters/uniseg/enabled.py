"""Makes the factory of each platform. A platform that nobody wants is not imported."""

import tomllib
import warnings
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from nonebot import require
from nonebot.drivers import Driver

from nekro_core.api.adapter import Adapter, AdapterFactory, Host


def platforms() -> tuple[str, ...]:
    """The platforms that the manifest names: each is the name of an adapter and of a module."""
    return tuple(tomllib.loads(Path(__file__).with_name("adapter.toml").read_text("utf-8")))


def factories(settings: Mapping[str, Any]) -> Mapping[str, AdapterFactory]:
    """What makes the adapter of each platform in ``NEKRO_PLATFORMS`` that is one of uniseg's."""
    wanted = settings.get("nekro_platforms") or ()
    return {name: _factory(name) for name in platforms() if name in wanted}


def _factory(name: str) -> AdapterFactory:
    """Import a platform's module now. Of one that cannot be imported, its factory raises the
    `ImportError`."""
    try:
        with warnings.catch_warnings():
            # uniseg looks for adapters registered by then and says so; ours are told to it one by
            # one. Some of the stock adapters are older than what they use.
            warnings.simplefilter("ignore", RuntimeWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            # As a plugin, so that an operator's own plugin that needs it finds it loaded.
            require("nonebot_plugin_alconna")
            create: AdapterFactory = import_module(f".platforms.{name}", __package__).create
    except ImportError as error:
        return partial(_refuse, error)
    except RuntimeError as error:  # NoneBot's word for a plugin that is not there
        return partial(_refuse, ImportError(str(error)))
    return create


def _refuse(reason: ImportError, _host: Host, _driver: Driver) -> Adapter:
    raise reason
