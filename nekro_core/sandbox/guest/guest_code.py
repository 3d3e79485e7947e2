"""Running the reply's statements as they are fed, as one program called ``__main__``."""

import __future__

import ast
import builtins
import inspect
import io
import json
import linecache
import os
import sys
import threading
import traceback
import types

import guest_tools
from guest_wire import DONE, END

FILENAME = "<reply>"
_OWN = (FILENAME, "/home/user/", "/tmp/", "/app/")  # noqa: S108 - names of folders inside the box
_ERROR_LIMIT = 8000
_FUTURE = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)


class _Ready:
    """What ``await`` gets for a value that was there at once: calls of tools are synchronous."""

    def __init__(self, value):
        self.value = value

    def __await__(self):
        return self.value
        yield


def _awaitable(value):
    return value if inspect.isawaitable(value) else _Ready(value)


async def _coroutine(value):
    return await _awaitable(value)


class _AwaitAnything(ast.NodeTransformer):
    """``await x`` becomes ``await __awaitable__(x)``, so that both ways to call a tool work."""

    def visit_Await(self, node):  # noqa: N802 - the visitor's naming
        self.generic_visit(node)
        name = ast.copy_location(ast.Name("__awaitable__", ast.Load()), node)
        node.value = ast.copy_location(ast.Call(name, [node.value], []), node)
        return node


def _accept_values_in_asyncio():
    """Let ``asyncio.gather(tool(1), tool(2))`` and its like take the values that tools return."""
    import asyncio

    def lenient(function, many=False):
        def call(*args, **kwargs):
            count = len(args) if many else 1
            return function(*(_as_coroutine(arg) for arg in args[:count]), *args[count:], **kwargs)

        call.__name__, call.__doc__ = function.__name__, function.__doc__
        return call

    def _as_coroutine(value):
        return value if inspect.isawaitable(value) else _coroutine(value)

    for name in ("run", "create_task", "ensure_future", "wait_for", "shield"):
        setattr(asyncio, name, lenient(getattr(asyncio, name)))
    asyncio.gather = lenient(asyncio.gather, many=True)


class Program:
    """One run's globals, source and event loop."""

    def __init__(self, conversation):
        self.conversation = conversation
        self.module = types.ModuleType("__main__")
        sys.modules["__main__"] = self.module
        self.lines = []
        self.loop = None
        self.flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        self.asyncio_ready = False
        builtins.__awaitable__ = _awaitable
        builtins.ToolError = guest_tools.ToolError
        builtins.exit = builtins.quit = sys.exit

    def run(self):
        """Execute what is fed until the last statement or the first error. Gives (stop, error)."""
        try:
            while True:
                fed = self.conversation.source()
                if fed is None:
                    break
                self._chunk(*fed)
            self._join_threads()
        except SystemExit as stop:
            if stop.code not in (None, 0):
                return "error", "SystemExit: %s" % (stop.code,)
        except MemoryError:
            return "out_of_memory", "MemoryError: the code needed more memory than the box has"
        except BaseException as error:  # noqa: BLE001 - whatever the strange code raises is its result
            return "error", self._traceback(error)
        return "finished", ""

    def _chunk(self, number, line, source):
        self._remember(line, source)
        statements = self._parse(line, source)
        for statement in statements:
            code = compile(
                ast.Module([statement], []), FILENAME, "exec", flags=self.flags, dont_inherit=True
            )
            self.flags |= code.co_flags & _FUTURE
            if code.co_flags & inspect.CO_COROUTINE:
                self._event_loop().run_until_complete(eval(code, vars(self.module)))  # noqa: S307
            else:
                exec(code, vars(self.module))  # noqa: S102 - this is what a box is for
            self._flush()
            self.conversation.send(DONE, number if statement is statements[-1] else 0, b"1")
        if not statements:
            self.conversation.send(DONE, number)

    def _parse(self, line, source):
        if not self.asyncio_ready and "asyncio" in source:
            self._event_loop()
        try:
            tree = ast.parse(source, FILENAME)
        except SyntaxError as error:
            if error.lineno:
                error.lineno += line - 1
            if getattr(error, "end_lineno", None):
                error.end_lineno += line - 1
            raise
        if line > 1:
            ast.increment_lineno(tree, line - 1)
        if "await" in source:
            tree = ast.fix_missing_locations(_AwaitAnything().visit(tree))
        return tree.body

    def _remember(self, line, source):
        """Keep the source where tracebacks look for it, at its lines of the whole reply."""
        self.lines.extend(["\n"] * (line - 1 - len(self.lines)))
        self.lines[line - 1 :] = source.splitlines(keepends=True)
        linecache.cache[FILENAME] = (1, None, self.lines, FILENAME)

    def _event_loop(self):
        import asyncio

        if not self.asyncio_ready:
            self.asyncio_ready = True
            _accept_values_in_asyncio()
        if self.loop is None:
            self.loop = asyncio.new_event_loop()
        return self.loop

    def _join_threads(self):
        for thread in threading.enumerate():
            if thread is not threading.current_thread() and not thread.daemon:
                thread.join()

    @staticmethod
    def _flush():
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:  # noqa: BLE001, S112 - the code may have put anything in their place
                continue

    def _traceback(self, error):
        try:
            described = traceback.TracebackException(type(error), error, error.__traceback__)
            _keep_own_lines(described)
            text = "".join(described.format()).rstrip()
        except BaseException as broken:  # noqa: BLE001 - a hostile __str__ or __cause__
            text = "%s (and it cannot be described: %s)" % (
                type(error).__name__,
                type(broken).__name__,
            )
        if len(text) > _ERROR_LIMIT:
            text = text[: _ERROR_LIMIT // 2] + "\n  ...\n" + text[-_ERROR_LIMIT // 2 :]
        return text


def _keep_own_lines(described):
    """Drop the frames of the library and of this agent: they help nobody to mend the reply."""
    seen, waiting = set(), [described]
    while waiting:
        part = waiting.pop()
        if part is None or id(part) in seen:
            continue
        seen.add(id(part))
        own = [entry for entry in part.stack if entry.filename.startswith(_OWN)]
        part.stack = (
            traceback.StackSummary.from_list(own) if own != list(part.stack) else part.stack
        )
        waiting += [part.__cause__, part.__context__, *(getattr(part, "exceptions", None) or ())]


def become_run(channel, settings, described):
    """The whole life of a run's process; never returns."""
    for number, target in ((1, "stdout"), (2, "stderr")):
        raw = io.open(number, "wb", closefd=False)
        stream = io.TextIOWrapper(
            raw, encoding="utf-8", errors="backslashreplace", line_buffering=True
        )
        setattr(sys, target, stream)
        setattr(sys, "__%s__" % target, stream)
    sys.argv = [FILENAME]
    os.chdir("/home/user")
    conversation = guest_tools.Conversation(channel, settings["value"])
    program = Program(conversation)
    guest_tools.bind(conversation, json.loads(described), vars(program.module))
    stop, error = program.run()
    program._flush()  # noqa: SLF001 - its own module
    text = json.dumps({"stop": stop, "error": error})
    conversation.send(END, 0, text.encode("utf-8", "replace"))
    threading.Event().wait()  # the agent ends this process, and with it every thread
