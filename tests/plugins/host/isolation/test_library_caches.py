"""The classes of unloaded plugins are removed from caches of libraries."""

import sys
import threading
from typing import Generic, Literal, TypeVar

from pydantic import BaseModel

from nekro_core.plugins.host.isolation.library_caches import forget_types

T = TypeVar("T")


class Box(BaseModel, Generic[T]):
    held: T


def test_classes_are_forgotten_while_another_thread_makes_more() -> None:
    """A plugin that is loaded in a thread makes such classes while another one is unloaded."""
    made: list[type[BaseModel]] = []
    ended = threading.Event()

    def make() -> None:
        while not ended.is_set():
            made.append(Box[Literal[len(made)]])  # type: ignore[misc,valid-type]

    thread, before = threading.Thread(target=make), sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread.start()
    try:
        while len(made) < 400 and thread.is_alive():
            forget_types(lambda _: False)
    finally:
        ended.set()
        thread.join()
        sys.setswitchinterval(before)
    assert len(made) >= 400
    forget_types(lambda module: module == __name__)
    assert Box[Literal[0]] is not made[0]
