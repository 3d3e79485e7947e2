"""Every error class derives from one root, and the trees drawn in docstrings are correct."""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from types import ModuleType

import pytest

import nekro_core
import nekro_core.api
from nekro_core.api import adapter, plugin
from nekro_core.chat.key import ChatKey, ChatKeyError
from nekro_core.system.errors import NekroError

PUBLIC = [f"nekro_core.api.{each.name}" for each in pkgutil.iter_modules(nekro_core.api.__path__)]
DRAWN = {
    "nekro_core.delivery.errors",
    "nekro_core.llm.embedded.weights",
    "nekro_core.llm.model",
    "nekro_core.media.errors",
    "nekro_core.reactive.errors",
    "nekro_core.sandbox.box",
    "nekro_core.speech.speaker",
    "nekro_core.store.errors",
    "nekro_core.store.vectors",
}
"""Modules whose docstrings contain a tree of errors."""
BRANCH = re.compile(r"^(?P<stem>[ │]*)[├└]── (?P<name>\w+)")


def test_all_public_modules_publish_the_same_root_error() -> None:
    assert plugin.NekroError is adapter.NekroError is NekroError
    assert NekroError.__bases__ == (Exception,)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_error_derives_from_the_root(name: str) -> None:
    module = importlib.import_module(name)
    outside = [
        each
        for each, value in vars(module).items()
        if isinstance(value, type)
        and issubclass(value, BaseException)
        and not issubclass(value, NekroError)
    ]
    assert not outside


def test_an_error_can_be_caught_as_the_root_and_as_its_builtin_base() -> None:
    with pytest.raises(NekroError) as caught:
        ChatKey.parse("no key")
    assert isinstance(caught.value, ChatKeyError)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("name", sorted(DRAWN))
def test_a_tree_of_errors_in_a_docstring_equals_the_real_tree(name: str) -> None:
    module = importlib.import_module(name)
    drawn = dict(_drawn(module))
    assert drawn
    assert {child: getattr(module, child).__bases__[0].__name__ for child in drawn} == drawn


def _drawn(module: ModuleType) -> Iterator[tuple[str, str]]:
    """Each class of the tree in a module's docstring, with its parent in the tree."""
    above: list[str] = []
    for line in (module.__doc__ or "").splitlines():
        if line.strip() == "NekroError":
            above = ["NekroError"]
        elif found := BRANCH.match(line):
            depth = (len(found["stem"]) - 4) // 4 + 1
            del above[depth:]
            yield found["name"], above[-1]
            above.append(found["name"])
