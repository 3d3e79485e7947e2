"""From a folder to a plugin that is in force: manifest, configuration, module, object, components.

The one module through which the SDK is imported.
"""

import inspect
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loguru import logger
from maibot_sdk.context import PluginContext, PluginPaths
from maibot_sdk.plugin import MaiBotPlugin as SdkPlugin
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from nekro_core.compat.maibot import configuration
from nekro_core.compat.maibot.commands import problem_of as problem_of_command
from nekro_core.compat.maibot.components import components_of
from nekro_core.compat.maibot.configuration import MaiBotConfigError
from nekro_core.compat.maibot.gateways import close_gateways
from nekro_core.compat.maibot.hooks import unsupported_handlers
from nekro_core.compat.maibot.inbound import message_method, prompt_method
from nekro_core.compat.maibot.lifecycle import MaiBotLifecycle
from nekro_core.compat.maibot.manifest import (
    FILE_NAME,
    MaiBotManifest,
    MaiBotManifestError,
    read_manifest,
)
from nekro_core.compat.maibot.plugin import MaiBotPlugin
from nekro_core.compat.maibot.rpc import rpc_of
from nekro_core.compat.maibot.tools import tool_of
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

if TYPE_CHECKING:
    from nekro_core.compat.maibot.host import MaiBotHost

_OLDER = b"src.plugin_system"
_MOST_FILES, _MOST_BYTES = 200, 1024 * 1024
_LIFECYCLE = ("on_load", "on_unload", "on_config_update")
_TYPES = frozenset(
    {
        "TOOL",
        "COMMAND",
        "API",
        "EVENT_HANDLER",
        "HOOK_HANDLER",
        "MESSAGE_GATEWAY",
        "HOME_CARD",
        "REPLY_EXTENSION",
    }
)


async def load_plugin(
    host: "MaiBotHost", item: DiscoveredPlugin, effects: UndoStack, limit_s: float
) -> NekroPlugin:
    """See `PluginKind.load`."""
    folder = item.path.parent
    where = f"{folder / FILE_NAME}:1"
    try:
        manifest = read_manifest(folder / FILE_NAME)
    except MaiBotManifestError as error:
        raise LoadFailed(_error(f"{FILE_NAME}: {error}", where)) from None
    values = _settings(folder)
    if not configuration.is_enabled(values):
        text = f"[plugin] enabled is false in its {configuration.FILE_NAME}"
        raise SwitchedOff(
            PluginProblem(
                severity=ProblemSeverity.WARNING,
                message=text,
                remedy="set it to true, then load it",
            )
        )
    warnings = [*manifest.problems, *_packages(manifest, where)]
    _check_needed(host, manifest, where)
    _legacy_modules(host, item, effects, manifest.plugin_id)
    instance = await _create_plugin(item, limit_s)
    author, module_name = manifest.key
    plugin = NekroPlugin(
        name=manifest.name,
        module_name=module_name,
        description=manifest.description,
        version=manifest.version,
        author=author,
        url=manifest.url,
        for_small_models=True,
    )
    live = MaiBotPlugin(
        manifest=manifest, instance=instance, plugin=plugin, item=item.item, folder=folder
    )
    plugin.problems += [*warnings, *_lifecycle(item, instance)]
    _give_context(host, live)
    _give_settings(live, values)
    life = MaiBotLifecycle(host, live, offer_gateways, offer_components)
    plugin.init_method = life.begin
    plugin.cleanup_method = life.end
    plugin.on_user_message_method = message_method(host, live)
    plugin.prompt_inject_method = prompt_method(host, live)
    effects.add(f"MaiBot plugin {manifest.plugin_id}", lambda: _forget(host, live))
    return plugin


def offer_gateways(live: MaiBotPlugin) -> None:
    """Before ``on_load``, in which a gateway may already say that it is connected. No more than
    these: nothing else of a plugin may be called yet."""
    try:
        with live.plugin.acting():
            declared = live.instance.get_components()
    except Exception as error:  # noqa: BLE001 - it may need what `on_load` makes, and is asked again
        logger.debug("{}: no components before on_load: {!r}", live.plugin_id, error)
        return
    components, _ = components_of(declared or (), "")
    live.components[:] = [each for each in components if each.type == "MESSAGE_GATEWAY"]


def offer_components(host: "MaiBotHost", live: MaiBotPlugin) -> None:
    """Read what the plugin offers, and make tools of what are tools. After ``on_load``: some make
    their components there. Raises what `get_components` does."""
    where = f"{live.folder / 'plugin.py'}:1"
    with live.plugin.acting():
        declared = live.instance.get_components()
    live.components[:], problems = components_of(declared or (), where)
    for each in live.components:
        if each.type not in _TYPES:
            problems.append(_error(f"component {each.name!r} is of type {each.type!r}", where))
        elif each.type == "COMMAND" and (fault := problem_of_command(each)):
            problems.append(_error(f"command {each.name!r}: {fault}", where))
        elif each.type in ("REPLY_EXTENSION", "HOME_CARD"):
            text = f"{each.type} {each.name!r} has no effect: there is no place for it here"
            problems.append(_warning(text, where))
    for each, why in unsupported_handlers(live.components):
        problems.append(_warning(f"{each.name!r} is never called: {why}", where))
    if providers := _providers(live.instance):
        text = f"LLM providers are not taken from plugins: {', '.join(providers)}"
        problems.append(_warning(text, where))
    live.plugin.problems += problems
    offer_tools(host, live)


def offer_tools(host: "MaiBotHost", live: MaiBotPlugin) -> None:
    """Make the plugin's tools of those components that are on."""
    tools, taken = [], set[str]()
    known = set(live.plugin.problems)
    for each in live.of_type("TOOL"):
        tool, problems = tool_of(
            live, each, host.message_for, taken=taken, timeout_s=host.ports.tool_s
        )
        taken.add(tool.python_name)
        tools.append(tool)
        live.plugin.problems += [problem for problem in problems if problem not in known]
    live.plugin.offered_tools[:] = tools
    live.plugin.tools_changed()


async def _create_plugin(item: DiscoveredPlugin, limit_s: float) -> Any:
    """The object that the plugin's factory makes."""
    if not item.path.is_file():
        raise LoadFailed(_error("there is no plugin.py beside the manifest", f"{item.path}:1"))
    owner = current_owner()
    assert owner is not None, "plugins are loaded by a registry"
    module = await import_plugin_module(item, owner, limit_s)
    factory: Callable[[], Any] | None = getattr(module, "create_plugin", None)
    if factory is None:
        factory = _legacy(module)
    if not callable(factory):
        remedy = "write def create_plugin(): return MyPlugin()"
        raise LoadFailed(_error("plugin.py has no create_plugin()", f"{item.path}:1", remedy))
    try:
        instance = factory()
        if inspect.isawaitable(instance):
            instance = await instance
    except Exception as error:  # a plugin may do anything here
        raise LoadFailed(problem_of(error, item)) from error
    if not hasattr(instance, "get_components") or not hasattr(instance, "_set_context"):
        came = type(instance).__name__
        remedy = "return an object of a class that is derived from maibot_sdk.MaiBotPlugin"
        raise LoadFailed(_error(f"create_plugin() gives {came}", f"{item.path}:1", remedy))
    return instance


def _legacy_modules(
    host: "MaiBotHost", item: DiscoveredPlugin, effects: UndoStack, plugin_id: str
) -> None:
    """The names of the time before the SDK (``src.plugin_system``), for a plugin that imports them:
    the SDK has them, and they are in the process as long as such a plugin is loaded."""
    files = sorted(item.path.parent.rglob("*.py"))[:_MOST_FILES]
    if not any(_OLDER in each.read_bytes()[:_MOST_BYTES] for each in files):
        return
    from maibot_sdk.compat import _context_holder as holder  # noqa: PLC0415 - rare
    from maibot_sdk.compat._import_hook import (  # noqa: PLC0415
        install_hook,
        uninstall_hook,
    )

    def drop() -> None:
        host.older.discard(item.item)
        # The SDK keeps contexts for the life of its process: MaiBot's own ends with the plugin.
        holder._contexts.pop(plugin_id, None)  # noqa: SLF001
        if holder._current_ctx is not None and holder._current_ctx.plugin_id == plugin_id:  # noqa: SLF001
            holder._current_ctx = None  # noqa: SLF001
        if not host.older:
            uninstall_hook()

    host.older.add(item.item)
    install_hook()
    effects.add(f"older names for {item.item}", drop)


def _legacy(module: Any) -> Callable[[], Any] | None:
    """A class of the time before the SDK, behind the SDK's own adapter."""
    found = getattr(module, "_legacy_plugin_class", None)
    if found is None:
        marked = (each for each in vars(module).values() if isinstance(each, type))
        found = next((each for each in marked if "_is_legacy_registered" in vars(each)), None)
    if found is None:
        return None
    from maibot_sdk.compat.legacy_adapter import LegacyPluginAdapter  # noqa: PLC0415 - rare

    return lambda: LegacyPluginAdapter(found())


def _lifecycle(item: DiscoveredPlugin, instance: Any) -> list[PluginProblem]:
    if not isinstance(instance, SdkPlugin):
        return []
    missing = [
        name for name in _LIFECYCLE if getattr(type(instance), name) is getattr(SdkPlugin, name)
    ]
    if not missing:
        return []
    text = f"it has no {', '.join(missing)}: empty ones are used"
    return [_warning(text, f"{item.path}:1", f"write async def {missing[0]}(...)")]


def _give_context(host: "MaiBotHost", live: MaiBotPlugin) -> None:
    data = live.plugin.get_plugin_data_dir()
    paths = PluginPaths(data_dir=data, runtime_dir=data / "runtime")
    paths.runtime_dir.mkdir(exist_ok=True)
    context = PluginContext(live.plugin_id, rpc_call=rpc_of(host, live), paths=paths)
    live.instance._set_context(context)  # noqa: SLF001 - how the SDK wants it from its host


def _settings(folder: Path) -> dict[str, Any]:
    path = folder / configuration.FILE_NAME
    try:
        return configuration.read(path)
    except MaiBotConfigError as error:
        raise LoadFailed(_error(str(error), f"{path}:1", "correct the file")) from None


def _give_settings(live: MaiBotPlugin, values: Mapping[str, Any]) -> None:
    path = live.folder / configuration.FILE_NAME
    try:
        made = configuration.normalized(live.instance, values)
        if made != values:
            configuration.write(path, made)
    except MaiBotConfigError as error:
        raise LoadFailed(_error(str(error), f"{path}:1", "correct the value")) from None
    except OSError as error:
        live.plugin.problems.append(_warning(f"its configuration is not written: {error}"))
    live.settings = made
    live.instance.set_plugin_config(dict(made))


def _check_needed(host: "MaiBotHost", manifest: MaiBotManifest, where: str) -> None:
    for needed, wanted in manifest.plugins:
        other = host.plugins.get(needed)
        if other is None:
            raise LoadFailed(
                _error(f"it needs the plugin {needed}", where, "install it, or see why it fails")
            )
        if wanted and not _fits(other.manifest.version, wanted):
            text = f"it needs {needed} {wanted}, there is {other.manifest.version}"
            raise LoadFailed(_error(text, where, "install that version"))


def _packages(manifest: MaiBotManifest, where: str) -> list[PluginProblem]:
    found = []
    for package, wanted in manifest.packages:
        try:
            installed = version(package)
        except PackageNotFoundError:
            text = f"it needs the package {package}{wanted}, which is not installed"
            found.append(_warning(text, where, "nekro plugin install puts it in place"))
            continue
        if wanted and not _fits(installed, wanted):
            found.append(_warning(f"it needs {package}{wanted}, there is {installed}", where))
    return found


def _fits(number: str, wanted: str) -> bool:
    try:
        return SpecifierSet(wanted).contains(number, prereleases=True)
    except InvalidSpecifier:
        return True  # what nobody can read refuses nobody


def _providers(instance: Any) -> list[str]:
    find = getattr(instance, "get_llm_providers", None)
    return [str(each.get("client_type")) for each in find()] if find else []


async def _forget(host: "MaiBotHost", live: MaiBotPlugin) -> None:
    if host.plugins.get(live.plugin_id) is live:
        del host.plugins[live.plugin_id]
    await close_gateways(host, live)
    live.components.clear()


def _error(message: str, where: str = "", remedy: str = "") -> PluginProblem:
    return PluginProblem(
        severity=ProblemSeverity.ERROR, message=message, where=where, remedy=remedy
    )


def _warning(message: str, where: str = "", remedy: str = "") -> PluginProblem:
    return PluginProblem(
        severity=ProblemSeverity.WARNING, message=message, where=where, remedy=remedy
    )
