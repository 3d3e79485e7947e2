"""Functions that many programs use work in every box in spite of its system call filter."""
# ruff: noqa: E501 - code of a box reads best on one line

import textwrap

import pytest

from nekro_core.sandbox.box import Box
from tests.sandbox.run_code import play

PARTS = {
    "processes that share work": """
        import concurrent.futures, multiprocessing
        with multiprocessing.get_context("fork").Pool(3) as pool:
            assert pool.map(abs, range(-50, 0)) == list(range(50, 0, -1))
        with concurrent.futures.ProcessPoolExecutor(2) as pool:
            assert list(pool.map(abs, [-1, -2])) == [1, 2]
    """,
    "processes that begin anew": """
        import subprocess, sys
        code = '''
        import multiprocessing
        if __name__ == "__main__":
            for method in ("forkserver", "spawn"):
                with multiprocessing.get_context(method).Pool(1) as pool:
                    print(pool.map(abs, [-1]))
        '''
        open("main.py", "w").write(code)
        done = subprocess.run([sys.executable, "main.py"], capture_output=True, text=True)
        assert done.stdout == "[1]\\n[1]\\n", done
    """,
    "memory that is shared": """
        import mmap
        from multiprocessing import shared_memory
        shared = shared_memory.SharedMemory(create=True, size=4096)
        shared.buf[0] = 1
        shared.close()
        shared.unlink()
        with open("mapped", "w+b") as file:
            file.truncate(1 << 20)
            with mmap.mmap(file.fileno(), 0) as mapped:
                mapped[0] = 1
                mapped.flush()
                mapped.madvise(mmap.MADV_DONTNEED)
                mapped.resize(1 << 21)
    """,
    "threads": """
        import concurrent.futures, threading, time
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(time.sleep, [0.001] * 40))
        condition = threading.Condition()
        with condition:
            condition.wait(0.01)
    """,
    "asyncio": """
        import asyncio
        async def main():
            child = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1)
            assert (await child.communicate(b"x"))[0] == b"x"
            server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            assert await reader.read() == b""
            writer.close()
            server.close()
            assert await asyncio.to_thread(lambda: 1) == 1
        asyncio.run(main())
    """,
    "a database": """
        import sqlite3
        with sqlite3.connect("x.db") as database:
            database.execute("pragma journal_mode=wal")
            database.execute("create table a (b)")
            database.executemany("insert into a values (?)", [(n,) for n in range(1000)])
        database.execute("vacuum")
        assert database.execute("select count(*) from a").fetchone() == (1000,)
        database.close()
    """,
    "files": """
        import fcntl, os, shutil, tempfile, zipfile
        os.makedirs("a/b")
        open("a/b/c", "w").write("x" * 100)
        shutil.copytree("a", "copy")
        shutil.copy2("a/b/c", "c")
        os.link("c", "hard")
        os.symlink("c", "soft")
        os.mkfifo("fifo")
        os.utime("c", (1, 1))
        os.chmod("c", 0o600)
        os.rename("hard", "harder")
        shutil.rmtree("copy")
        os.listxattr("c")
        file, other = os.open("c", os.O_RDWR), os.open("d", os.O_RDWR | os.O_CREAT)
        fcntl.flock(file, fcntl.LOCK_EX)
        fcntl.lockf(file, fcntl.LOCK_EX)
        os.posix_fallocate(file, 0, 200)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.pwritev(file, [b"ab"], 0)
        os.preadv(file, [bytearray(2)], 0)
        os.copy_file_range(file, other, 10)
        os.fsync(file)
        os.truncate("c", 1)
        with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(folder + "/z", "w") as made:
            made.writestr("a", "b")
    """,
    "signals and terminals": """
        import os, pty, signal
        signal.signal(signal.SIGALRM, lambda *_: None)
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        signal.pause()
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
        os.kill(os.getpid(), signal.SIGUSR2)
        assert signal.sigtimedwait([signal.SIGUSR2], 5).si_signo == signal.SIGUSR2
        child, terminal = pty.fork()
        if child == 0:
            os.execvp("echo", ["echo", "hi"])
        assert b"hi" in os.read(terminal, 100)
        os.waitpid(child, 0)
    """,
    "waiting for several": """
        import selectors, socket
        for kind in (selectors.EpollSelector, selectors.PollSelector, selectors.SelectSelector):
            with kind() as selector:
                one, other = socket.socketpair()
                selector.register(one, selectors.EVENT_READ)
                other.send(b"x")
                assert selector.select(5)
                one.close()
                other.close()
    """,
    "sockets": """
        import socket
        with socket.create_server(("127.0.0.1", 0)) as server:
            with socket.create_connection(server.getsockname()) as client:
                accepted, _ = server.accept()
                accepted.sendmsg([b"x"])
                assert client.recvmsg(10)[0] == b"x"
                accepted.close()
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("socket")
            server.listen()
    """,
    "programs": """
        import subprocess
        counted = subprocess.run("for i in 1 2 3; do echo $i | cat; done | sort | wc -l",
            shell=True, capture_output=True, text=True)
        assert counted.stdout.strip() == "3", counted
        for line in ("ls -la /", "find /home -name x", "tail -n1 /etc/passwd", "date", "nproc",
                     "sort -u /etc/passwd | xargs -P3 -n1 echo", "timeout 5 sleep 0.01", "id"):
            done = subprocess.run(line, shell=True, capture_output=True, text=True)
            assert done.returncode == 0, (line, done)
    """,
    "the standard library": """
        import importlib, os, sys
        skipped = {"antigravity", "this", "idlelib", "tkinter", "turtle", "turtledemo", "lib2to3"}
        missing = {"msilib", "msvcrt", "nt", "winreg", "winsound"}
        for name in sorted(getattr(sys, "stdlib_module_names", ())):
            if name not in skipped | missing and not name.startswith("_"):
                try:
                    importlib.import_module(name)
                except ModuleNotFoundError:
                    pass  # a distribution left it out
    """,
}


class ProgramConformance:
    """Needs the fixture ``box``."""

    @pytest.mark.parametrize("part", PARTS)
    async def test_functions_that_many_programs_use_work(self, box: Box, part: str) -> None:
        code = "import warnings\nwarnings.simplefilter('ignore')\n" + textwrap.dedent(PARTS[part])
        code += "\nNone"  # the value of a last expression is shown unless it is None
        result = await play(box, code)
        assert not result.error, result.error
        assert result.output == ""
