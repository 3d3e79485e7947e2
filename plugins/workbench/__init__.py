"""Gives the AI the workbench: named sandboxes of its chat, in which it runs commands and stores
files."""

from typing import Any

from nekro_core.api.plugin import NekroPlugin, SandboxMethodType
from nekro_core.api.schemas import AgentCtx

plugin = NekroPlugin(
    name="Workbench",
    module_name="workbench",
    description="Run commands and servers in named sandboxes, and move files between them.",
    version="0.1.0",
    author="nekro",
    is_builtin=True,
    for_small_models=False,
)

_HOME = "/home/user"


@plugin.mount_sandbox_method(
    SandboxMethodType.TOOL, name="shell", description="Execute a shell command in a sandbox."
)
async def shell(
    _ctx: AgentCtx,
    command: str,
    sandbox: str = "default",
    timeout_ms: int = 30_000,
    working_dir: str = _HOME,
) -> dict[str, Any]:
    """Run a shell command. What it starts with & goes on in the background.

    Your Python runs in the sandbox "default". Each sandbox keeps its files; one that was asleep
    (woke) has lost its processes.

    Returns:
        {stdout, stderr, exit_code}; timed_out with exit code 124.
    """
    result = await _ctx.sandbox_tool(
        "shell",
        command=command,
        sandbox=sandbox,
        timeout_ms=timeout_ms,
        working_dir=working_dir,
    )
    if result.get("timed_out"):
        result["hint"] = "start it with & and look later, or give it more time with timeout_ms"
    return result


@plugin.mount_sandbox_method(
    SandboxMethodType.TOOL, name="read_file", description="Read a file of a sandbox."
)
async def read_file(
    _ctx: AgentCtx,
    path: str,
    sandbox: str = "default",
    offset: int = 0,
    limit: int | None = None,
) -> dict[str, Any]:
    """Read bytes of a file.

    Returns:
        {content, size of the whole file}; truncated where there is more; encoding "base64" where
        it is no text.
    """
    given: dict[str, Any] = {} if limit is None else {"limit": limit}
    return await _ctx.sandbox_tool("read_file", path=path, sandbox=sandbox, offset=offset, **given)


@plugin.mount_sandbox_method(
    SandboxMethodType.TOOL, name="write_file", description="Write a file of a sandbox."
)
async def write_file(
    _ctx: AgentCtx,
    path: str,
    content: str,
    sandbox: str = "default",
    append: bool = False,
    encoding: str = "utf-8",
) -> dict[str, Any]:
    """Write text to a file, or bytes as base64 with encoding="base64".

    Returns:
        {ok, size}.
    """
    return await _ctx.sandbox_tool(
        "write_file",
        path=path,
        content=content,
        sandbox=sandbox,
        append=append,
        encoding=encoding,
    )


@plugin.mount_sandbox_method(
    SandboxMethodType.TOOL, name="workbench.glob", description="List files of a sandbox."
)
async def glob(
    _ctx: AgentCtx, pattern: str, sandbox: str = "default", cwd: str = _HOME
) -> dict[str, Any]:
    """List files that match a pattern such as **/*.py.

    Returns:
        {files}, sorted, relative to cwd.
    """
    return await _ctx.sandbox_tool("glob", pattern=pattern, sandbox=sandbox, cwd=cwd)


@plugin.mount_sandbox_method(
    SandboxMethodType.TOOL, name="browse", description="Show a server that runs in a sandbox."
)
async def browse(_ctx: AgentCtx, port: int, sandbox: str = "default") -> dict[str, Any]:
    """Make a server that listens in a sandbox visible to people.

    Returns:
        {url}.
    """
    return await _ctx.sandbox_tool("browse", port=port, sandbox=sandbox)


@plugin.mount_sandbox_method(
    SandboxMethodType.TOOL, name="sandbox_create", description="Create a named sandbox."
)
async def sandbox_create(
    _ctx: AgentCtx, sandbox: str, image: str = "", sleep_after_ms: int = 600_000
) -> dict[str, Any]:
    """Create a sandbox. Any other call that names a new one creates it too, with Python.

    Args:
        image: "python", "python-data" (numpy, Pillow), "alpine/git" or "node:22" (the default).

    Returns:
        {sandbox, created}.
    """
    given = {"image": image} if image else {}
    return await _ctx.sandbox_tool(
        "sandbox_create", sandbox=sandbox, sleep_after_ms=sleep_after_ms, **given
    )


@plugin.mount_sandbox_method(
    SandboxMethodType.TOOL, name="sandbox_list", description="List the sandboxes of this chat."
)
async def sandbox_list(_ctx: AgentCtx) -> dict[str, Any]:
    """List the sandboxes.

    Returns:
        {sandboxes: [{name, image, status}]}.
    """
    return await _ctx.sandbox_tool("sandbox_list")


@plugin.mount_sandbox_method(
    SandboxMethodType.TOOL, name="transfer", description="Copy files between sandboxes."
)
async def transfer(
    _ctx: AgentCtx,
    from_sandbox: str,
    from_path: str,
    to_sandbox: str,
    to_path: str,
    recursive: bool = False,
) -> dict[str, Any]:
    """Copy a file, or a folder with recursive; to_path is the final name.

    Returns:
        {ok, bytes}.
    """
    return await _ctx.sandbox_tool(
        "transfer",
        from_sandbox=from_sandbox,
        from_path=from_path,
        to_sandbox=to_sandbox,
        to_path=to_path,
        recursive=recursive,
    )
