"""Loads a plugin: reads its manifest and configuration, imports its module and creates its object.

Importing this module imports the SDK, which takes 0.2 s.
"""

import difflib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from maibot_sdk.context import PluginContext, PluginPaths
from maibot_sdk.plugin import MaiBotPlugin as SdkPlugin
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from nekro_core.compat.maibot.bot_view import BotView
from nekro_core.compat.maibot.capabilities import CAPABILITIES
from nekro_core.compat.maibot.gateways import Gateways
from nekro_core.compat.maibot.hooks.handlers import HookRunner
from nekro_core.compat.maibot.hooks.inbound import InboundMessages
from nekro_core.compat.maibot.lifecycle import MaiBotLifecycle
from nekro_core.compat.maibot.plugin import configuration
from nekro_core.compat.maibot.plugin.configuration import MaiBotConfigError
from nekro_core.compat.maibot.plugin.folder_name import own_name_of
from nekro_core.compat.maibot.plugin.form import MaiBotConfiguration
from nekro_core.compat.maibot.plugin.legacy import give_legacy_settings, legacy_factory
from nekro_core.compat.maibot.plugin.loaded import LoadedPlugins, MaiBotPlugin
from nekro_core.compat.maibot.plugin.manifest import (
    FILE_NAME,
    PROVIDED_PLUGINS,
    STRICT_REMEDY,
    MaiBotManifest,
    MaiBotManifestError,
    read_manifest,
)
from nekro_core.compat.maibot.rpc import PluginRpc
from nekro_core.plugins.authoring.binding import current_owner
from nekro_core.plugins.authoring.effects import UndoStack
from nekro_core.plugins.authoring.plugin import NekroPlugin
from nekro_core.plugins.host.loader import (
    DiscoveredPlugin,
    LoadFailed,
    SwitchedOff,
    import_plugin_module,
    problem_of,
)
from nekro_core.tools.problem import PluginProblem, ProblemSeverity

_LEGACY_IMPORTS = b"src.plugin_system"
_MOST_FILES, _MOST_BYTES = 200, 1024 * 1024
_LIFECYCLE = ("on_load", "on_unload", "on_config_update")


@dataclass(slots=True, kw_only=True, eq=False)
class MaiBotLoader:
    """Loads plugins and connects each plugin to the bot. ``tool_s`` is the time limit in seconds of
    a tool that sets no limit. With ``strict_host_range``, a plugin is refused if its manifest does
    not allow this host's version of MaiBot."""

    bot: BotView
    hooks: HookRunner
    plugins: LoadedPlugins
    gateways: Gateways
    inbound: InboundMessages
    tool_s: float
    strict_host_range: bool = False
    _with_legacy_imports: set[str] = field(default_factory=set)

    async def load(self, item: DiscoveredPlugin, effects: UndoStack, limit_s: float) -> NekroPlugin:
        """See `PluginKind.load`."""
        folder = item.path.parent
        where = f"{folder / FILE_NAME}:1"
        try:
            manifest = read_manifest(folder / FILE_NAME)
        except MaiBotManifestError as error:
            raise LoadFailed(_error(f"{FILE_NAME}: {error}", where)) from None
        if self.strict_host_range and manifest.host_range_problem:
            text, remedy = manifest.host_range_problem, STRICT_REMEDY
            raise LoadFailed(_error(f"{FILE_NAME}: {text}", where, remedy))
        values = _settings(folder)
        if not configuration.is_enabled(values):
            text = f"[plugin] enabled is false in its {configuration.FILE_NAME}"
            raise SwitchedOff(_warning(text, remedy="set it to true, then load it"))
        warnings = [*manifest.problems, *_packages(manifest, where), *_unknown(manifest, where)]
        self._check_plugins(manifest, where)
        self._add_legacy_imports(item, effects, manifest.plugin_id)
        named = replace(item, own_name=own_name_of(folder))
        instance = await _create_plugin(named, limit_s)
        author, module_name = manifest.key
        native = NekroPlugin(
            name=manifest.name,
            module_name=module_name,
            description=manifest.description,
            version=manifest.version,
            author=author,
            url=manifest.url,
            for_small_models=True,
        )
        plugin = MaiBotPlugin(
            manifest=manifest,
            instance=instance,
            native=native,
            item=item.item,
            folder=folder,
            tool_s=self.tool_s,
        )
        native.problems += [*warnings, *_missing_methods(item, instance)]
        self._give_context(plugin)
        _give_settings(plugin, values)
        lifecycle = MaiBotLifecycle(
            plugin=plugin, bot=self.bot, hooks=self.hooks, plugins=self.plugins
        )
        native.init_method = lifecycle.begin
        native.cleanup_method = lifecycle.end
        native.configuration = MaiBotConfiguration(plugin, lifecycle.configuration_changed)
        self.inbound.mount(plugin)

        async def forget() -> None:
            if self.plugins.by_id.get(plugin.plugin_id) is plugin:
                del self.plugins.by_id[plugin.plugin_id]
            await self.gateways.close(plugin)
            plugin.components.clear()

        effects.add(f"MaiBot plugin {manifest.plugin_id}", forget)
        return native

    def _check_plugins(self, manifest: MaiBotManifest, where: str) -> None:
        """Raise `LoadFailed` if a needed plugin is missing, or if its version does not fit."""
        for needed, wanted in manifest.plugins:
            if needed in PROVIDED_PLUGINS:
                continue
            other = self.plugins.by_id.get(needed)
            if other is None:
                remedy = "install it, or see why it fails"
                raise LoadFailed(_error(f"it needs the plugin {needed}", where, remedy))
            if wanted and not _fits(other.manifest.version, wanted):
                text = f"it needs {needed} {wanted}, there is {other.manifest.version}"
                raise LoadFailed(_error(text, where, "install that version"))

    def _add_legacy_imports(
        self, item: DiscoveredPlugin, effects: UndoStack, plugin_id: str
    ) -> None:
        """Make ``src.plugin_system`` and its modules importable. Plugins used these modules before
        there was an SDK.

        The SDK's import hook provides these modules. The hook is installed while a plugin that
        imports them is loaded.
        """
        files = sorted(item.path.parent.rglob("*.py"))[:_MOST_FILES]
        if not any(_LEGACY_IMPORTS in each.read_bytes()[:_MOST_BYTES] for each in files):
            return
        from maibot_sdk.compat import _context_holder as holder  # noqa: PLC0415 - rare
        from maibot_sdk.compat._import_hook import (  # noqa: PLC0415
            install_hook,
            uninstall_hook,
        )

        def remove() -> None:
            self._with_legacy_imports.discard(item.item)
            # The SDK never removes a context. In MaiBot each plugin has its own process, which ends
            # with the plugin. Here the process of the bot continues, so the context is removed.
            holder._contexts.pop(plugin_id, None)  # noqa: SLF001
            current = holder._current_ctx  # noqa: SLF001
            if current is not None and current.plugin_id == plugin_id:
                holder._current_ctx = None  # noqa: SLF001
            if not self._with_legacy_imports:
                uninstall_hook()

        self._with_legacy_imports.add(item.item)
        install_hook()
        effects.add(f"legacy imports of {item.item}", remove)

    def _give_context(self, plugin: MaiBotPlugin) -> None:
        data = plugin.native.get_plugin_data_dir()
        paths = PluginPaths(data_dir=data, runtime_dir=data / "runtime")
        paths.runtime_dir.mkdir(exist_ok=True)
        rpc = PluginRpc(
            plugin=plugin,
            bot=self.bot,
            hooks=self.hooks,
            plugins=self.plugins,
            gateways=self.gateways,
        )
        context = PluginContext(plugin.plugin_id, rpc_call=rpc, paths=paths)
        plugin.instance._set_context(context)  # noqa: SLF001 - the SDK's interface for hosts


async def _create_plugin(item: DiscoveredPlugin, limit_s: float) -> Any:
    """Import the plugin's module and call its factory. Raises `LoadFailed`."""
    if not item.path.is_file():
        raise LoadFailed(_error("there is no plugin.py beside the manifest", f"{item.path}:1"))
    owner = current_owner()
    assert owner is not None, "plugins are loaded by a registry"
    module = await import_plugin_module(item, owner, limit_s)
    factory: Callable[[], Any] | None = getattr(module, "create_plugin", None)
    if factory is None:
        factory = legacy_factory(module, item.path.parent)
    if not callable(factory):
        remedy = "write def create_plugin(): return MyPlugin()"
        raise LoadFailed(_error("plugin.py has no create_plugin()", f"{item.path}:1", remedy))
    try:
        instance = factory()
        if inspect.isawaitable(instance):
            instance = await instance
    except Exception as error:  # a plugin's factory may raise any exception
        raise LoadFailed(problem_of(error, item)) from error
    if not hasattr(instance, "get_components") or not hasattr(instance, "_set_context"):
        came = type(instance).__name__
        remedy = "return an object of a class that is derived from maibot_sdk.MaiBotPlugin"
        raise LoadFailed(_error(f"create_plugin() gives {came}", f"{item.path}:1", remedy))
    return instance


def _missing_methods(item: DiscoveredPlugin, instance: Any) -> list[PluginProblem]:
    if not isinstance(instance, SdkPlugin):
        return []
    missing = [
        name for name in _LIFECYCLE if getattr(type(instance), name) is getattr(SdkPlugin, name)
    ]
    if not missing:
        return []
    text = f"it has no {', '.join(missing)}: empty ones are used"
    return [_warning(text, f"{item.path}:1", f"write async def {missing[0]}(...)")]


def _settings(folder: Path) -> dict[str, Any]:
    path = folder / configuration.FILE_NAME
    try:
        return configuration.read(path)
    except MaiBotConfigError as error:
        raise LoadFailed(_error(str(error), f"{path}:1", "correct the file")) from None


def _give_settings(plugin: MaiBotPlugin, values: Mapping[str, Any]) -> None:
    path = plugin.folder / configuration.FILE_NAME
    try:
        made = configuration.normalized(plugin.instance, values)
        if made != values and (copy := configuration.save(path, values, made)):
            text = f"its {path.name} is written anew: the file as it was is {copy.name}"
            plugin.native.problems.append(_warning(text, f"{path}:1"))
    except MaiBotConfigError as error:
        raise LoadFailed(_error(str(error), f"{path}:1", "correct the value")) from None
    except OSError as error:
        plugin.native.problems.append(_warning(f"its configuration is not written: {error}"))
    plugin.settings = made
    give_legacy_settings(plugin.instance, made)
    plugin.instance.set_plugin_config(dict(made))


def _packages(manifest: MaiBotManifest, where: str) -> list[PluginProblem]:
    problems = []
    for package, wanted in manifest.packages:
        try:
            installed = version(package)
        except PackageNotFoundError:
            text = f"it needs the package {package}{wanted}, which is not installed"
            problems.append(_warning(text, where, "nekro plugin install puts it in place"))
            continue
        if wanted and not _fits(installed, wanted):
            problems.append(_warning(f"it needs {package}{wanted}, there is {installed}", where))
    return problems


def _unknown(manifest: MaiBotManifest, where: str) -> list[PluginProblem]:
    """A warning for each capability that neither MaiBot nor this host has."""
    problems = []
    for name in sorted(manifest.capabilities - CAPABILITIES.keys()):
        close = difflib.get_close_matches(name, CAPABILITIES, 1)
        remedy = f"did you mean {close[0]!r}?" if close else "leave it out"
        problems.append(_warning(f"there is no capability {name!r}", where, remedy))
    return problems


def _fits(number: str, wanted: str) -> bool:
    try:
        return SpecifierSet(wanted).contains(number, prereleases=True)
    except InvalidSpecifier:
        return True  # an invalid range is ignored


def _error(message: str, where: str = "", remedy: str = "") -> PluginProblem:
    return PluginProblem(
        severity=ProblemSeverity.ERROR, message=message, where=where, remedy=remedy
    )


def _warning(message: str, where: str = "", remedy: str = "") -> PluginProblem:
    return PluginProblem(
        severity=ProblemSeverity.WARNING, message=message, where=where, remedy=remedy
    )
