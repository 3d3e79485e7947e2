"""Executes the statements of a reply as soon as they arrive, all in one module ``__main__``."""

from __future__ import annotations
import __future__

import builtins
import io
import itertools
import os
import sys
from _thread import allocate_lock

import guest_packages
import guest_tools
import guest_values
from guest_minimal_stdlib import dumps, loads
from guest_wire import BlockingChannel

# This name is not imported from `typing`, because that import takes 4 ms.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

FILENAME = "<reply>"
_WRITING = ("write", "write_text", "write_bytes")
"""Methods that return a number of bytes or characters. This number is not printed as the value of
the last expression."""
_OWN = ("<reply", "/home/user/", "/tmp/", "/app/")
_ERROR_LIMIT = 8000
_TIME_ZONE = "__time_zone__"
"""The name of a value, the bot's time zone, that the host adds only for the code of small models. A
run with this value also gets the functions of `guest_calculations`."""

# Constants of `ast` and `inspect`. Importing these modules takes 20 ms.
_ONLY_AST, _TOP_LEVEL_AWAIT, _COROUTINE = 0x400, 0x2000, 0x80
_EVENT_LOOPS = ("asyncio", "anyio", "sniffio")
_GENERATOR = type(_ for _ in ())
_FUTURE = 0
for _name in __future__.all_feature_names:
    _FUTURE |= getattr(__future__, _name).compiler_flag


def _is_one_statement(source: str) -> bool:
    """Return True if a quick check shows that the source is one statement without ``await``. Such
    source need not be parsed into statements first, which halves the time."""
    line, _, rest = source.partition("\n")
    plain = not rest and "await" not in line and not any(sign in line for sign in ";\r\f\\")
    return plain and line.strip()[:1] not in ("", "#")


class _Ready:
    """Makes a plain value awaitable. Calls of tools are synchronous and return such values."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __await__(self) -> Any:
        return self.value
        yield


def _awaitable(value: Any) -> Any:
    return value if _can_be_awaited(value) else _Ready(value)


def _can_be_awaited(value: Any) -> bool:
    return hasattr(value, "__await__") or isinstance(value, _GENERATOR)


def _await_anything(tree: Any) -> Any:
    """Replace ``await x`` by ``await __awaitable__(x)``, so that code may call a tool with or
    without ``await``."""
    import ast

    class Transformer(ast.NodeTransformer):
        def visit_Await(self, node: ast.Await) -> ast.Await:
            self.generic_visit(node)
            name = ast.copy_location(ast.Name("__awaitable__", ast.Load()), node)
            node.value = ast.copy_location(ast.Call(name, [node.value], []), node)
            return node

    return ast.fix_missing_locations(Transformer().visit(tree))


def _interactive(statement: Any) -> Any:
    import ast

    return ast.Interactive([statement])


def _accept_values_in_asyncio() -> None:
    """Make functions such as `asyncio.gather` accept plain values, because tools return plain
    values: ``asyncio.gather(tool(1), tool(2))``."""
    import asyncio

    async def just(value: Any) -> Any:
        return value

    def coroutine(value: Any) -> Any:
        return value if _can_be_awaited(value) else just(value)

    def lenient(function: Callable[..., Any], many: bool) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            count = len(args) if many else 1
            return function(*map(coroutine, args[:count]), *args[count:], **kwargs)

        call.__name__, call.__doc__ = function.__name__, function.__doc__
        return call

    for name in ("run", "create_task", "ensure_future", "wait_for", "shield", "gather"):
        setattr(asyncio, name, lenient(getattr(asyncio, name), many=name == "gather"))


class Program:
    """The globals, source and event loop of one run, or of several runs that share globals."""

    def __init__(self, conversation: guest_tools.RunConnection) -> None:
        self.conversation = conversation
        self.module = type(sys)("__main__")
        self.bindings = guest_tools.ToolBindings(conversation, vars(self.module))
        self.filename = FILENAME
        self.lines: list[str] = []
        self.loop: Any = None
        self.uses_async = False
        self.flags = _TOP_LEVEL_AWAIT
        self.last = ""
        self.value: Any = None
        sys.displayhook = self._take_value

    def next_reply(self, number: int) -> None:
        """Begin another reply. The source lines of earlier replies are kept for tracebacks."""
        import linecache

        linecache.cache[self.filename] = (1, None, self.lines, self.filename)
        self.filename = f"<reply {number}>"
        self.lines = []

    def run(self) -> tuple[str, str]:
        """Execute the statements that arrive, until the end of the source or the first error.
        Return (stop, error)."""
        try:
            while True:
                fed = self.conversation.source()
                if fed is None:
                    break
                self._execute(*fed)
            _join_threads()
            self._show_last_value()
        except guest_tools.RunEnded:
            return "ended_by_call", ""
        except SystemExit as stop:
            if stop.code not in (None, 0):
                return "error", f"SystemExit: {stop.code}"
        except MemoryError:
            return "out_of_memory", "MemoryError: the code needed more memory than the box has"
        except BaseException as error:
            # The code may raise any error. The error becomes the result of the run.
            return "error", _traceback(error, self.lines, self.filename)
        finally:
            guest_tools.flush_output()
        return "finished", ""

    def _take_value(self, value: Any) -> None:
        self.value = value

    def _show_last_value(self) -> None:
        """Print the value of the reply's last expression, as a notebook does.

        Some values are not printed: None, a constant (it may be a text that is meant as a comment),
        the number that a method of `_WRITING` returned, and the value of a call whose answer says
        that it is not shown."""
        value, self.value = self.value, None
        if value is None or self.conversation.quiet:
            return
        import ast

        *_, last = ast.parse(self.last).body
        if not isinstance(last, ast.Expr) or isinstance(last.value, ast.Constant):
            return
        called = getattr(last.value, "func", None)
        if getattr(called, "attr", "") not in _WRITING:
            print(value if type(value) is str else repr(value))

    def _execute(self, number: int, line: int, source: str) -> None:
        # Blank lines before the source give it the line numbers of the whole reply. Each takes the
        # compiler 40 ns.
        self.lines.extend(["\n"] * (line - 1 - len(self.lines)))
        self.lines[line - 1 :] = source.splitlines(keepends=True)
        self.uses_async = self.uses_async or "async" in source.lower()
        if "asyncio" in source:
            self._prepare_asyncio()
        placed = "\n" * (line - 1) + source
        self.last = source
        if _is_one_statement(source):
            self._execute_one(placed if placed.endswith("\n") else placed + "\n")
            self.conversation.done(number)
            return
        tree: Any = compile(
            placed, self.filename, "exec", flags=_ONLY_AST | self.flags, dont_inherit=True
        )
        if "await" in source:
            tree = _await_anything(tree)
        for statement in tree.body:
            self._execute_one(_interactive(statement))
            last = statement is tree.body[-1]
            self.conversation.done(number if last else 0)
        if not tree.body:
            self.conversation.done(number, b"")

    def _execute_one(self, statement: Any) -> None:
        self.value, self.conversation.quiet = None, False
        # In the mode "single", Python calls `sys.displayhook` with the value of an expression.
        code = compile(statement, self.filename, "single", flags=self.flags, dont_inherit=True)
        self.flags |= code.co_flags & _FUTURE
        if code.co_flags & _COROUTINE:
            self._run_coroutine(eval(code, vars(self.module)))
        else:
            exec(code, vars(self.module))
        guest_tools.flush_output()

    def _run_coroutine(self, coroutine: Any) -> None:
        """Run a coroutine to its end. If the code awaits only values of tools, it never has to
        wait, so no event loop is made. This saves the 30 ms and 3 MB of importing `asyncio`."""
        if self.uses_async or any(name in sys.modules for name in _EVENT_LOOPS):
            self._prepare_asyncio()
            self.loop.run_until_complete(coroutine)
            return
        try:
            while True:
                waits_for = coroutine.send(None)
                if waits_for is not None:
                    coroutine.throw(RuntimeError(f"nobody here waits for {waits_for!r}"))
        except StopIteration:
            pass

    def _prepare_asyncio(self) -> None:
        if self.loop is None:
            import asyncio

            _accept_values_in_asyncio()
            self.loop = asyncio.new_event_loop()


def _wait_for_the_end() -> None:
    """Block until the supervisor kills this process."""
    never = allocate_lock()
    never.acquire()
    while True:
        never.acquire()


def _join_threads() -> None:
    threading = sys.modules.get("threading")
    if threading is None:  # not imported, so there is no other thread
        return
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()


def _traceback(error: BaseException, lines: list[str], filename: str) -> str:
    try:
        import linecache
        import traceback

        linecache.cache[filename] = (1, None, lines, filename)
        described = traceback.TracebackException(type(error), error, error.__traceback__)
        _keep_own_lines(described)
        text = "".join(described.format()).rstrip()
    except BaseException as broken:
        # The error's `__str__` or `__cause__` can raise any error.
        text = f"{type(error).__name__} (it cannot be described: {type(broken).__name__})"
    if len(text) > _ERROR_LIMIT:
        text = f"{text[: _ERROR_LIMIT // 2]}\n  ...\n{text[-_ERROR_LIMIT // 2 :]}"
    return text


def _keep_own_lines(described: Any) -> None:
    """Remove the frames of libraries and of the supervisor's files from a
    `traceback.TracebackException`, because they do not help to correct the reply."""
    seen: set[int] = set()
    waiting = [described]
    while waiting:
        part = waiting.pop()
        if part is None or id(part) in seen:
            continue
        seen.add(id(part))
        part.stack[:] = [entry for entry in part.stack if entry.filename.startswith(_OWN)]
        if part.exc_type is SyntaxError or part.exc_type is IndentationError:
            _show_line(part)
        waiting += [part.__cause__, part.__context__, *(getattr(part, "exceptions", None) or ())]


def _show_line(part: Any) -> None:
    """Set the source line of a syntax error in a reply. `traceback` cannot read the line, because a
    reply is not a file."""
    import linecache

    if part.filename.startswith("<reply") and not part.text and part.lineno:
        part.text = linecache.getline(part.filename, int(part.lineno))


def become_run(channel: BlockingChannel, known: tuple[bytes, Any]) -> None:
    """The main function of a run's process: warm up, wait for START, execute the code. Never
    returns. ``channel`` is the channel to the supervisor. For ``known`` see
    `guest_tools.RunConnection`.

    If the run keeps its globals, the process then waits for the next START.
    """
    for number, name in ((1, "stdout"), (2, "stderr")):
        raw = open(number, "wb", closefd=False)
        stream = io.TextIOWrapper(
            raw, encoding="utf-8", errors="backslashreplace", line_buffering=True
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.argv = [FILENAME]
    os.chdir("/home/user")
    builtins.__awaitable__ = _awaitable
    builtins.ToolError = guest_tools.ToolError
    builtins.exit = builtins.quit = sys.exit
    builtins.help = _help
    if not channel.waits():  # if START has arrived already, there is no time for the warm-up
        _warm_up()
    conversation = guest_tools.RunConnection(channel, known)
    program = Program(conversation)
    if conversation.functions is not None:
        program.bindings.bind(conversation.functions)
    settings, described = conversation.start()
    sys.modules["__main__"] = program.module
    for number in itertools.count(2):
        guest_packages.apply_environment(settings["environment"])
        program.bindings.bind(described)
        if _TIME_ZONE in vars(program.module):
            import guest_lazy_calculations

            guest_lazy_calculations.install()
        stop, error = program.run()
        ended = dumps({"stop": stop, "error": error})
        conversation.end(ended.encode("utf-8", "replace"))
        if not settings["keep"]:
            _wait_for_the_end()
        settings, described = conversation.start()
        program.next_reply(number)


def _help(*topics: Any) -> None:
    import pydoc

    for topic in topics:
        print(pydoc.plain(pydoc.render_doc(topic)))


def _warm_up() -> None:
    """Write to the memory pages that every run writes to. After a fork, the first write to a page
    copies it, which takes time."""
    module: dict[str, Any] = {}
    for source in ("x = [1, 'text']\n", "def f(a, b=2):\n    return {'a': a, **{}}\nf(1)\n"):
        tree: Any = compile(source, FILENAME, "exec", flags=_ONLY_AST | _TOP_LEVEL_AWAIT)
        for statement in tree.body:
            exec(compile(type(tree)([statement], []), FILENAME, "exec"), module)
    guest_values.encode_call("name", ("text", 1, 2.5, ["x"]), {"key": {"a": None}}, 10_000)
    guest_values.load(b"\x80\x04]\x94(K\x01\x8c\x04text\x94e.")
    loads(dumps({"names": ["a"] * 50, "value": 1}))
