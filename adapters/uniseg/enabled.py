"""Makes the factory of each enabled platform. Other platforms are not imported."""

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
    """Return the names of the platforms in the manifest ``adapter.toml``. Each name is also the
    name of a module in ``platforms/``."""
    return tuple(tomllib.loads(Path(__file__).with_name("adapter.toml").read_text("utf-8")))


def factories(settings: Mapping[str, Any]) -> Mapping[str, AdapterFactory]:
    """Return a factory for each platform of this package that ``NEKRO_PLATFORMS`` names."""
    wanted = settings.get("nekro_platforms") or ()
    return {name: _factory(name) for name in platforms() if name in wanted}


def _factory(name: str) -> AdapterFactory:
    """Import a platform's module and return its factory. If the import fails, the factory raises
    the `ImportError`."""
    try:
        with warnings.catch_warnings():
            # At import, uniseg warns that no adapters are registered. It does not need them:
            # `Bridge` names the adapter later. Some adapters of NoneBot use deprecated functions.
            warnings.simplefilter("ignore", RuntimeWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            # The library is loaded as a NoneBot plugin, so that a NoneBot plugin of the operator
            # can require it.
            require("nonebot_plugin_alconna")
            create: AdapterFactory = import_module(f".platforms.{name}", __package__).create
    except ImportError as error:
        return partial(_refuse, error)
    except RuntimeError as error:  # NoneBot raises it for a missing plugin
        return partial(_refuse, ImportError(str(error)))
    return create


def _refuse(reason: ImportError, _host: Host, _driver: Driver) -> Adapter:
    raise reason
