"""Imports a plugin's module by path within a time limit, and removes it completely when the plugin
is unloaded."""

import asyncio
import contextvars
import ctypes
import hashlib
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import anyio

from nekro_core.plugins.authoring.binding import PluginOwner, acting
from nekro_core.plugins.authoring.faults import is_cancellation
from nekro_core.plugins.authoring.plugin import NekroPlugin
from nekro_core.plugins.host.builtin import NAMESPACE, items_in, namespace
from nekro_core.plugins.host.caught_errors import CaughtError, likely_causes, recorded_errors
from nekro_core.plugins.host.isolation.code_owner import LOCAL_NAMESPACE, plugin_of_module
from nekro_core.plugins.host.isolation.library_caches import forget_types
from nekro_core.plugins.host.isolation.log_names import with_plugin_names
from nekro_core.plugins.host.nonebot_matchers import drop_matchers, init_missing_nonebot
from nekro_core.plugins.host.own_imports import FreshLoader, OwnModuleFinder
from nekro_core.plugins.host.own_path_imports import OwnPathImport, uses_search_path
from nekro_core.system.errors import NekroError
from nekro_core.tools.problem import PluginProblem, ProblemSeverity

_more_time: ContextVar[Callable[[float], object]] = ContextVar(
    "nekro_import_limit", default=lambda _seconds: None
)
_NO_MODULE = (
    "name its package in requirements.txt, or correct the name; nekro plugin install gets the "
    "packages that a plugin needs"
)
_CORRECT_LINE = "correct this line"
_REMEDIES: tuple[tuple[type[BaseException], str], ...] = (
    (SyntaxError, _CORRECT_LINE),
    (ModuleNotFoundError, _NO_MODULE),
    (ImportError, "correct the name that is imported"),
    (TimeoutError, "do slow work in a function under @plugin.mount_init_method()"),
)
_WRITE_PLUGIN = "write plugin = NekroPlugin(name=..., module_name=..., author=...)"


@dataclass(frozen=True, slots=True)
class DiscoveredPlugin:
    """A plugin that was found on disk. None of its code has run."""

    source: str
    name: str
    path: Path
    in_folder: bool = False
    """Whether the module is a package although its file is not called ``__init__.py``."""
    own_name: str = ""
    """Another name under which the modules of the package import each other; empty if none."""

    @property
    def folder(self) -> Path | None:
        """The folder of a plugin that is a package; None for a single file."""
        package = self.in_folder or self.path.name == "__init__.py"
        return self.path.parent if package else None

    @property
    def item(self) -> str:
        """The place and the name: ``builtin/chat``, ``local/weather``."""
        return f"{self.source}/{self.name}"

    @property
    def builtin(self) -> bool:
        """Whether the plugin came with the bot."""
        return self.source == "builtin"


class LoadFailed(NekroError):
    """A plugin cannot be used. ``problem`` says why, where and what to do."""

    def __init__(self, problem: PluginProblem) -> None:
        super().__init__(str(problem))
        self.problem = problem


class SwitchedOff(LoadFailed):
    """The plugin's own configuration says that it must not be loaded. It is listed as disabled,
    with the reason."""


def discover_plugins(source: str, folder: Path) -> list[DiscoveredPlugin]:
    """Get the plugins of a folder, sorted: ``x.py`` and ``x/__init__.py``."""
    found = []
    for name in items_in(folder):
        package = folder / name / "__init__.py"
        found.append(
            DiscoveredPlugin(source, name, package if package.is_file() else folder / f"{name}.py")
        )
    return found


async def load_plugin(item: DiscoveredPlugin, owner: PluginOwner, limit_s: float) -> NekroPlugin:
    """Import a plugin's module and return its ``plugin``.

    The import runs in a thread, so an import that hangs does not block the bot. If this raises
    `LoadFailed`, the owner's undo steps undo what was done before the error.
    """
    module = await import_plugin_module(item, owner, limit_s)
    plugin = getattr(module, "plugin", None)
    if isinstance(plugin, NekroPlugin):
        return plugin
    if plugin is None:
        raise LoadFailed(await _why_no_plugin(item, owner, limit_s))
    came = f"has a 'plugin' of {type(plugin).__name__}"
    raise LoadFailed(_error(f"the module {came}", f"{item.path}:1", _WRITE_PLUGIN))


async def _why_no_plugin(
    item: DiscoveredPlugin, owner: PluginOwner, limit_s: float
) -> PluginProblem:
    """Import a module that has no plugin object a second time, and return a problem that names the
    exceptions which the module caught."""
    module_name = f"{_namespace(item)}.{item.name}"
    own = str(item.folder or item.path)
    found: list[CaughtError] = []

    def work() -> ModuleType:
        for each in [*sys.modules]:
            if each.startswith(f"{module_name}."):
                del sys.modules[each]
        with acting(owner), recorded_errors(lambda file: file.startswith(own)) as errors:
            try:
                return _import(module_name, item, _own_finder(module_name, item))
            finally:
                found.extend(errors)

    # The first import has succeeded, so an exception that only this one raises is not the reason.
    with suppress(Exception):
        await _in_thread(work, limit_s, f"second import of {item.item}")
    causes = likely_causes(found)
    if not causes:
        return _error("the module has no 'plugin'", f"{item.path}:1", _WRITE_PLUGIN)
    first, *others = causes
    more = "".join(f", and {each} at {each.where}" for each in others)
    return _error(
        f"the module has no 'plugin'. It caught {first}{more}", first.where, _remedy(first.kind)
    )


async def import_plugin_module(
    item: DiscoveredPlugin, owner: PluginOwner, limit_s: float
) -> ModuleType:
    """Import a plugin's module, and add an undo step to the owner that removes the module. Raises
    `LoadFailed`."""
    module_name = f"{_namespace(item)}.{item.name}"
    owner.effects.add(f"import of {item.item}", _forgetting(module_name, item.folder))
    finder = _own_finder(module_name, item)
    if finder is not None:
        sys.meta_path.insert(0, finder)
        owner.effects.add(f"finder of {item.item}", partial(sys.meta_path.remove, finder))
    owner.effects.add(f"matchers of {item.item}", partial(drop_matchers, module_name))

    def work() -> ModuleType:
        with acting(owner):
            try:
                return _import(module_name, item, finder)
            except ValueError as error:
                if not init_missing_nonebot(error):
                    raise
            return _import(module_name, item, finder)

    try:
        return await _in_thread(work, limit_s, f"import of {item.item}")
    except TimeoutError as error:
        raise LoadFailed(problem_of(error, item, f"its import took over {limit_s:g} s")) from None
    except BaseException as error:  # a plugin may do anything at import
        if is_cancellation(error):
            raise
        raise LoadFailed(problem_of(error, item)) from error


def problem_of(error: BaseException, item: DiscoveredPlugin, message: str = "") -> PluginProblem:
    """Describe a plugin's exception, with the last line of the plugin's own code in its
    traceback."""
    remedy = _remedy(type(error))
    text = message or with_plugin_names(f"{type(error).__name__}: {error}")
    if isinstance(error, SyntaxError) and error.filename:
        return _error(
            f"{type(error).__name__}: {error.msg}", f"{error.filename}:{error.lineno}", remedy
        )
    mine = str(item.folder or item.path)
    frames = traceback.extract_tb(error.__traceback__) + list(getattr(error, "frames", ()))
    own = [frame for frame in frames if frame.filename.startswith(mine)]
    if own:
        return _error(text, f"{own[-1].filename}:{own[-1].lineno}", remedy)
    no_line = remedy == _CORRECT_LINE and not isinstance(error, SyntaxError)
    return _error(text, f"{item.path}:1", "the log has the traceback" if no_line else remedy)


def _remedy(kind: type[BaseException]) -> str:
    return next((text for each, text in _REMEDIES if issubclass(kind, each)), _CORRECT_LINE)


def _error(message: str, where: str, remedy: str) -> PluginProblem:
    return PluginProblem(
        severity=ProblemSeverity.ERROR, message=message, where=where, remedy=remedy
    )


class _FreshFinder(MetaPathFinder):
    """Finds plugins' modules, and lets `FreshLoader` load them."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See `MetaPathFinder`."""
        if path is None or not plugin_of_module(fullname):
            return None
        if any(
            isinstance(each, OwnModuleFinder) and each.finds(fullname) for each in sys.meta_path
        ):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin and isinstance(spec.loader, SourceFileLoader):
            spec.loader = FreshLoader(fullname, spec.origin)
        return spec


@contextmanager
def without_bytecode_cache() -> Iterator[None]:
    """While the block is open, load the modules of plugins with `FreshLoader`. It does not use a
    cached bytecode file if the source file was edited a moment ago."""
    finder = _FreshFinder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Hanging(NekroError, TimeoutError):
    """An import took too long. ``frames`` is the stack of its thread."""

    def __init__(self, frames: list[traceback.FrameSummary]) -> None:
        super().__init__()
        self.frames = frames


def _namespace(item: DiscoveredPlugin) -> str:
    folder = (item.folder or item.path).parent
    if item.builtin:
        return namespace(f"{NAMESPACE}.plugins", folder)
    # The plugins of two bots in one process must have different module names.
    digest = hashlib.sha256(str(folder.absolute()).encode()).hexdigest()[:8]
    return namespace(f"{LOCAL_NAMESPACE}{digest}", folder)


def _own_finder(name: str, item: DiscoveredPlugin) -> OwnModuleFinder | None:
    """Return a finder for the plugin's modules; None if Python's own finders suffice."""
    folder = item.folder
    own_path = None
    if folder is not None and uses_search_path(folder):
        own_path = OwnPathImport(name, folder)
    if not item.own_name and own_path is None:
        return None
    return OwnModuleFinder(name, item.own_name, own_path)


def _import(name: str, item: DiscoveredPlugin, finder: OwnModuleFinder | None) -> ModuleType:
    path = item.path
    folders = [str(item.folder)] if item.folder else None
    loader = finder.loader(name, str(path)) if finder else FreshLoader(name, str(path))
    spec = spec_from_file_location(name, path, loader=loader, submodule_search_locations=folders)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be imported")
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _forgetting(name: str, folder: Path | None) -> Callable[[], None]:
    """Remove a module and its submodules from ``sys.modules``. The returned function removes the
    newly imported modules and puts the earlier ones back.

    If the plugin has a folder, the returned function also removes modules that the plugin imported
    through entries that it added to ``sys.path``.
    """
    paths = [*sys.path]
    real = folder.resolve() if folder is not None else None

    def taken() -> dict[str, ModuleType]:
        # Iterate over a copy, because another bot may import in its own thread.
        own = [each for each in [*sys.modules] if each == name or each.startswith(f"{name}.")]
        return {each: sys.modules.pop(each) for each in own}

    before = taken()

    def forget() -> None:
        taken()
        if folder is not None:
            # Compare texts: making `Path` objects for thousands of modules takes a quarter of a
            # second. The folder may be a link, and ``sys.path`` may have the folder's real path.
            below = (f"{folder}/", f"{real}/")
            for each, module in sys.modules.copy().items():
                if str(getattr(module, "__file__", None)).startswith(below):
                    del sys.modules[each]
            sys.path[:] = [
                each for each in sys.path if each in paths or not f"{each}/".startswith(below)
            ]
        sys.modules.update(before)
        forget_types(lambda module: module == name or module.startswith(f"{name}."))

    return forget


async def _in_thread(work: Callable[[], ModuleType], limit_s: float, name: str) -> ModuleType:
    """Run ``work`` in a daemon thread. A thread of anyio's pool would keep the process from ending
    while ``work`` runs."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[tuple[ModuleType | None, BaseException | None]] = loop.create_future()
    context = contextvars.copy_context()

    def deliver(result: ModuleType | None, error: BaseException | None) -> None:
        if not done.done():
            done.set_result((result, error))

    def run() -> None:
        result, error = None, None
        try:
            result = context.run(work)
        except BaseException as problem:  # noqa: BLE001 - raised again in the waiting task
            error = problem
        if not loop.is_closed():
            loop.call_soon_threadsafe(deliver, result, error)

    thread = threading.Thread(target=run, name=name, daemon=True)
    try:
        with anyio.fail_after(limit_s) as limit:
            context.run(
                _more_time.set, lambda more: loop.call_soon_threadsafe(_extend, limit, more)
            )
            thread.start()
            result, error = await done
    except TimeoutError:
        running = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001 - it is documented
        _interrupt(thread)
        raise _Hanging(traceback.extract_stack(running) if running else []) from None
    if error is not None:
        raise error
    assert result is not None
    return result


@contextmanager
def pause_import_limit(seconds: float) -> Iterator[None]:
    """Extend the time limit of the running import while it waits, for example for a package to be
    installed. If no import runs, this does nothing."""
    extend, began = _more_time.get(), time.monotonic()
    extend(seconds)
    try:
        yield
    finally:
        extend(min(time.monotonic() - began - seconds, 0.0))


def _extend(limit: anyio.CancelScope, seconds: float) -> None:
    limit.deadline += seconds


def _interrupt(thread: threading.Thread) -> None:
    """End a thread at its next line of Python, so that an endless loop does not use a processor for
    ever. A thread that waits in C code is not ended, but it uses no processor either."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit)
    )
