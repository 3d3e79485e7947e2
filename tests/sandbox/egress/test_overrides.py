"""An operator changes which destinations single chats and boxes may reach, without a restart."""

import logging
import os
from pathlib import Path

import pytest

from nekro_core.sandbox.egress import EgressRules
from nekro_core.sandbox.egress.overrides import EgressOverrides, EgressOverridesFile
from nekro_core.sandbox.egress.rules import Destination

DEFAULT = EgressRules.parse(["index.example"])
TEXT = """
[group_1]
allow = ["example.org", "index.example"]
[group_1.boxes.build]
allow = []
[group_2]
private = ["127.0.0.1:3141"]
"""


def may(rules: EgressRules, authority: str) -> bool:
    return rules.find(Destination.parse(authority)) is not None


def test_only_the_most_specific_rules_apply() -> None:
    read = EgressOverrides.parse(TEXT, DEFAULT)
    assert may(read.rules("elsewhere", "default"), "index.example:443")
    assert may(read.rules("group_1", "default"), "example.org:443")
    assert not read.rules("group_1", "build")
    assert may(read.rules("group_2", "default"), "127.0.0.1:3141")
    assert not may(read.rules("group_2", "default"), "index.example:443")


@pytest.mark.parametrize(
    ("text", "others_have_the_settings"),
    [
        ("[group_1.boxes.build]\nallow = []", True),
        ("[group_1]\n[group_1.boxes.build]\nallow = []", True),
        ("[group_1]\nallow = []\n[group_1.boxes.build]\nallow = []", False),
        ("[group_1]\nprivate = []\n[group_1.boxes.build]\nallow = []", False),
        ("[group_1]", False),
    ],
)
def test_rules_of_one_box_change_nothing_for_the_other_boxes_of_its_owner(
    text: str, others_have_the_settings: bool
) -> None:
    read = EgressOverrides.parse(text, DEFAULT)
    assert may(read.rules("group_1", "default"), "index.example:443") is others_have_the_settings
    assert not may(read.rules("group_1", "build"), "index.example:443")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[a", "Expected"),
        ("a = 1", "a: "),
        ("[a]\nalow = []", "a.alow"),
        ("[a]\nallow = 'x'", "a.allow"),
        ("[a]\nallow = ['a b']", "no rule"),
        ("[a.boxes.b]\nprivate = ['*']", "no rule"),
    ],
)
def test_the_error_about_an_invalid_file_of_overrides_names_the_place(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        EgressOverrides.parse(text, DEFAULT)


def test_a_changed_file_is_read_and_an_invalid_one_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "egress.toml"
    file = EgressOverridesFile(path, DEFAULT)
    assert not file.look()
    assert may(file.rules("group_1", "default"), "index.example:443")

    path.write_text(TEXT)
    assert file.look()
    assert not file.look()
    assert not file.rules("group_1", "build")

    with caplog.at_level(logging.ERROR):
        path.write_text("[group_1")
        assert not file.look()
        assert not file.look()
    assert len(caplog.records) == 1
    assert not file.rules("group_1", "build")

    path.write_text(TEXT)
    os.utime(path, ns=(1, 1))
    assert not file.look(), "a file with the same rules is not a change"
    path.unlink()
    assert file.look()
    assert may(file.rules("group_1", "build"), "index.example:443")
