"""Writes the line of a report that says what a model can do about an error of its code."""

import re

from nekro_core.agent.prompt.chat_place import SandboxFacts
from nekro_core.agent.turn.reply import ModelReply
from nekro_core.sandbox.box import StopReason

_LAST_LINE = re.compile(r"[^\n]*\Z")
_NO_NAME = re.compile(r"(?:NameError|UnboundLocalError): name '(?P<name>\w{1,80})' is not")
_NO_MODULE = re.compile(r"ModuleNotFoundError: No module named '(?P<name>[\w.]{1,80})'")
_SHELL = "shell"


def remedy_line(
    reply: ModelReply, *, seconds: float, has_shell: bool, sandbox: SandboxFacts
) -> str:
    """Return what the model can do about an error that has ended a run; empty if nothing is known.
    ``seconds`` is the time limit of a run. ``has_shell`` says whether the model may call the
    function `shell`. A command that `shell` starts is not ended with the run. ``sandbox`` says
    which packages the box has and whether it reaches a network."""
    if reply.result is None:
        return ""
    if reply.result.stop is StopReason.TIMEOUT:
        return _after_time_out(seconds, has_shell=has_shell)
    if reply.result.stop is not StopReason.ERROR:
        return ""
    found = _LAST_LINE.search(reply.result.error.rstrip())
    last = found.group() if found else ""
    if missing := _NO_NAME.match(last):
        gone = "Variables, functions and imports of an earlier turn are gone, files are kept"
        listed = "the program's functions are those listed above"
        return f"[note] {missing['name']} does not exist now. {gone}; {listed}."
    if missing := _NO_MODULE.match(last):
        return _without_package(missing["name"].partition(".")[0], sandbox)
    return ""


def _without_package(name: str, sandbox: SandboxFacts) -> str:
    note = f"[note] The box has no package {name}."
    if sandbox.packages is not None:
        has = ", ".join(("Python's standard library", *sandbox.packages))
        note += f" It has {has}: use what is there."
    if sandbox.network:
        return f"{note} If the box reaches a package index, `pip install` in it gets others."
    return (
        f"{note} Nothing can be installed: the box reaches no network. If it cannot be done "
        "without the package, tell people that the operator can let boxes reach a package index "
        "(NEKRO_SANDBOX__EGRESS) or add a plugin that has the package."
    )


def _after_time_out(seconds: float, *, has_shell: bool) -> str:
    remedy = "Do less at a time, and keep results in files."
    if has_shell:
        remedy = f'Start what takes longer with {_SHELL}("... > out.txt &"), end your reply, and '
        remedy += "look at the file in a later one."
    return f"[note] The code of one reply may run {seconds:g} s. {remedy}"


def next_reply_lines(*, last_step: bool, last_repair: bool) -> list[str]:
    """Return what the model must know about its next reply: whether it is the last one."""
    lines = []
    if last_repair:
        lines.append(
            "[note] If your next reply fails too, your turn ends. If you cannot repair it, tell "
            "people in plain words what did not work."
        )
    if last_step:
        lines.append(
            "[note] Your next reply is the last one of this turn, and you are not shown what it "
            "prints. Send people what you have, and say what is missing."
        )
    return lines
