"""The plugin class that modules under ``nekro_agent`` offer."""

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from nekro_core.compat.nekro_agent.context import LegacyAgentCtx
from nekro_core.plugins.authoring.config import ConfigBase
from nekro_core.plugins.authoring.declarations import Function
from nekro_core.plugins.authoring.plugin import NekroPlugin
from nekro_core.plugins.authoring.plugin_key import author_key, module_key
from nekro_core.plugins.authoring.web import no_chat_key
from nekro_core.tools.describe import place_of
from nekro_core.tools.problem import PluginProblem, ProblemSeverity


class LegacyNekroPlugin(NekroPlugin):
    """A plugin written for nekro-agent, which accepts what `NekroPlugin` refuses.

    - The author and the module name may be any text. The plugin's key contains forms of both that
      are valid in a key (`author_key`, `module_key`).
    - The first parameter of a handler is the context whatever its name, and a result of kind
      ``AGENT`` or ``BEHAVIOR`` may have any type.
    - The model reads the text of an error that a handler raises itself
      (`nekro_core.plugins.host.raised_text`).
    - A function for the init, cleanup, enabled or disabled hook may take a context.
    """

    is_lenient: ClassVar[bool] = True
    _unset: Mapping[str, str] = MappingProxyType({})

    @classmethod
    def key_part(cls, field: str, text: str) -> str:
        """Return the form of an author or module name that the plugin's key contains. See
        `author_key` and `module_key`."""
        return author_key(str(text)) if field == "author" else module_key(str(text))

    @property
    def config(self) -> Any:
        """The plugin's configuration; the same object as `get_config` returns. An object that the
        plugin sets here is written to the configuration file."""
        return self.get_config()

    @config.setter
    def config(self, config: ConfigBase) -> None:
        if config is not self._config:
            self.save_config(config)

    def _read_config(self, config_class: type[ConfigBase], path: Path | None) -> ConfigBase:
        """See `Configured`. A field without a default may have no value yet. The plugin is loaded
        all the same, and the list of plugins tells the operator what to set."""
        config = config_class.load_filled(path)
        self.problems[:] = [each for each in self.problems if each.message not in self._unset]
        self._unset = {
            f"its configuration has no value for {name}": name
            for name in config_class.unset_fields(config)
        }
        where = f"{path}:1" if path is not None else ""
        self.problems += [
            PluginProblem(
                severity=ProblemSeverity.WARNING,
                message=message,
                where=where,
                remedy=f"set {name}",
            )
            for message, name in self._unset.items()
        ]
        return config

    def mount_init_method(self) -> Callable[[Function], Function]:
        """See `NekroPlugin.mount_init_method`. The function may take a context that belongs to no
        chat. Raises `TypeError` if it needs more."""
        return _mounting(super().mount_init_method(), "init")

    def mount_cleanup_method(self) -> Callable[[Function], Function]:
        """See `NekroPlugin.mount_cleanup_method` and `mount_init_method`."""
        return _mounting(super().mount_cleanup_method(), "cleanup")

    def on_enabled(self) -> Callable[[Function], Function]:
        """See `NekroPlugin.on_enabled` and `mount_init_method`."""
        return _mounting(super().on_enabled(), "on_enabled")

    def on_disabled(self) -> Callable[[Function], Function]:
        """See `NekroPlugin.on_disabled` and `mount_init_method`."""
        return _mounting(super().on_disabled(), "on_disabled")


def _mounting(
    mount: Callable[[Callable[..., Any]], object], what: str
) -> Callable[[Function], Function]:
    """Make a decorator that mounts a function and returns it unchanged. If the function needs a
    parameter, the mounted function passes a context."""

    def decorate(function: Function) -> Function:
        mount(_with_context(function, what) if _needs_context(function, what) else function)
        return function

    return decorate


def _needs_context(function: Callable[..., Any], what: str) -> bool:
    """Return True if a function can be called only with one argument. Raises `TypeError` if it
    needs several."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return False  # the signature is not known, so it is called without arguments
    for count in (0, 1):
        try:
            signature.bind(*[None] * count)
        except TypeError:
            continue
        return count == 1
    raise TypeError(
        f"{place_of(function)}: the {what} method has the parameters {signature}; expected none, "
        "or one for the context: give the others a default"
    )


def _with_context(function: Callable[..., Any], what: str) -> Callable[[], Any]:
    @wraps(function)
    def call() -> Any:
        return function(LegacyAgentCtx.for_chat(no_chat_key(what)))

    return call
