"""Run Python code, and run it again whenever the code changes."""

from nekro_core.api.plugin import NekroPlugin, SandboxMethodType
from nekro_core.api.reactive import AsyncCell, ExecResult, Readable, cell, computed, exec_, scope
from nekro_core.api.schemas import AgentCtx

plugin = NekroPlugin(
    name="Runner",
    module_name="runner",
    description="Runs Python and shows what it prints.",
    version="1.0.0",
    author="examples",
    url="",
)


def runner(code: Readable[str]) -> AsyncCell[ExecResult]:
    """Return the output of the code. The cell is idle while there is no code."""
    return exec_([["python3", "main.py"]], files={"main.py": computed(lambda: code() or None)})


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, name="run_python", description="Run Python.")
async def run_python(_ctx: AgentCtx, code: str) -> int:
    """Run Python in a fresh box and show in the chat what it prints.

    Args:
        code: The program.

    Returns:
        Its exit code.

    Example:
        # User: what is 2 to the power of 100?
        run_python(code="print(2 ** 100)")
    """
    async with scope(_ctx):
        run = runner(cell(code))

        def line() -> str:
            if run.error is not None:
                raise run.error
            return str(run.result or "running ...")

        await _ctx.show(computed(line))
        return run.result.exit_code if run.result else 0
