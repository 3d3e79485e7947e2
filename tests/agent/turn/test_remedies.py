"""What a model is told about a package that its code could not import."""

import pytest

from nekro_core.agent.prompt.chat_place import SandboxFacts
from nekro_core.agent.turn.remedies import remedy_line
from nekro_core.agent.turn.reply import ModelReply
from nekro_core.llm.model import RequestUsage
from nekro_core.sandbox.box import RunResult, StopReason

OPERATOR = "tell people that the operator can let boxes reach a package index"


def told(sandbox: SandboxFacts) -> str:
    error = "Traceback (most recent call last):\nModuleNotFoundError: No module named 'scipy.stats'"
    reply = ModelReply(
        kept="",
        tail="",
        end="whole",
        prose="",
        code="import scipy.stats",
        statements=(),
        usage=RequestUsage(prompt_tokens=0, completion_tokens=0),
        result=RunResult(stop=StopReason.ERROR, error=error),
    )
    return remedy_line(reply, seconds=60, has_shell=False, sandbox=sandbox)


@pytest.mark.parametrize(
    ("packages", "has"),
    [
        (("numpy", "pandas"), "It has Python's standard library, numpy, pandas: use what is there"),
        ((), "It has Python's standard library: use what is there"),
    ],
)
def test_the_packages_that_are_there_are_named(packages: tuple[str, ...], has: str) -> None:
    line = told(SandboxFacts(packages=packages))
    assert line.startswith(f"[note] The box has no package scipy. {has}.")
    assert OPERATOR in line


def test_if_the_packages_of_a_box_are_unknown_none_are_named() -> None:
    line = told(SandboxFacts())
    assert line.startswith("[note] The box has no package scipy. Nothing can be installed")
    assert OPERATOR in line


def test_a_box_with_a_network_may_install_the_package() -> None:
    line = told(SandboxFacts(packages=("numpy",), network=True))
    assert "`pip install` in it gets others" in line
    assert OPERATOR not in line
