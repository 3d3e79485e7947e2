"""Destinations and rules are parsed, and a rule allows only its destinations."""

import ipaddress
import re

import pytest

from nekro_core.sandbox.egress import EgressDenied, EgressRules
from nekro_core.sandbox.egress.rules import Destination, EgressRule

SIX = ipaddress.IPv6Address("2606:4700::1")
FOUR = ipaddress.IPv4Address("1.1.1.1")
LONGEST = f"{'a' * 63}.{'b' * 63}.{'c' * 63}.{'d' * 61}"  # 253 characters


@pytest.mark.parametrize(
    ("authority", "destination"),
    [
        ("example.org:8443", Destination("example.org", 8443)),
        ("example.org", Destination("example.org", 443)),
        ("example.org:1", Destination("example.org", 1)),
        ("example.org:65535", Destination("example.org", 65535)),
        ("_dmarc.a-b.example:80", Destination("_dmarc.a-b.example", 80)),
        ("1.1.1.1:53", Destination("1.1.1.1", 53, FOUR)),
        ("[2606:4700:0::1]:53", Destination("[2606:4700::1]", 53, SIX)),
        ("[2606:4700::1]", Destination("[2606:4700::1]", 443, SIX)),
        (f"{LONGEST}:80", Destination(LONGEST, 80)),
        ("0xg.example:80", Destination("0xg.example", 80)),
    ],
)
def test_a_destination_is_read_from_host_and_port(authority: str, destination: Destination) -> None:
    assert Destination.parse(authority, 443) == destination


NO_PORT = "is no host and port"
NO_NAME = (
    "is no name that can be allowed: write it in lower case, without a dot at its end, in ASCII"
)
NO_ADDRESS = "is no address as it is usually written"


@pytest.mark.parametrize(
    ("authority", "reason"),
    [
        ("example.org:0", f"'example.org:0' {NO_PORT}"),
        ("example.org:65536", f"'example.org:65536' {NO_PORT}"),
        ("example.org:", f"'example.org:' {NO_PORT}"),
        ("a:b:80", f"'a:b:80' {NO_PORT}"),
        ("[::1", f"'[::1' {NO_PORT}"),
        (f"{'a:' * 90}", f"'{'a:' * 50}' {NO_PORT}"),
        ("EXAMPLE.org:80", f"'EXAMPLE.org' {NO_NAME}"),
        ("example.org.:80", f"'example.org.' {NO_NAME}"),
        (f"{'a' * 64}.example:80", f"'{'a' * 64}.example' {NO_NAME}"),
        (f"{LONGEST}d:80", f"'{LONGEST[:100]}' {NO_NAME}"),
        ("-a.example:80", f"'-a.example' {NO_NAME}"),
        ("a-.example:80", f"'a-.example' {NO_NAME}"),
        ("127.1:80", f"'127.1' {NO_ADDRESS}"),
        ("evil.0x7f:80", f"'evil.0x7f' {NO_ADDRESS}"),
        ("evil.0x:80", f"'evil.0x' {NO_ADDRESS}"),
        ("[1.1.1.1]:80", f"'1.1.1.1' {NO_ADDRESS}"),
        (f"{'1' * 120}:80", f"'{'1' * 100}' {NO_ADDRESS}"),
        ("[fe80::1%lo]:80", "an address of one network card cannot be allowed"),
    ],
)
def test_an_ambiguous_destination_is_refused(authority: str, reason: str) -> None:
    with pytest.raises(EgressDenied) as refused:
        Destination.parse(authority, 443)
    assert str(refused.value) == reason


def test_without_a_default_port_the_port_is_required() -> None:
    with pytest.raises(EgressDenied, match=NO_PORT):
        Destination.parse("example.org")


WEB = frozenset({80, 443})


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("example.org", EgressRule("example.org", WEB)),
        (" Example.ORG. ", EgressRule("example.org", WEB)),
        ("example.org:1", EgressRule("example.org", frozenset({1}))),
        ("example.org:65535", EgressRule("example.org", frozenset({65535}))),
        ("*.example.org:8443", EgressRule("*.example.org", frozenset({8443}))),
        ("*.Bücher.example", EgressRule("*.xn--bcher-kva.example", WEB)),
        ("a_b.example", EgressRule("a_b.example", WEB)),
        ("A_B.example", EgressRule("a_b.example", WEB)),
        ("*", EgressRule("*", WEB)),
        ("*:8443", EgressRule("*", frozenset({8443}))),
        ("1.1.1.1", EgressRule("1.1.1.1", WEB)),
        ("[2606:4700:0::1]", EgressRule("[2606:4700::1]", WEB)),
        ("[2606:4700::1]:53", EgressRule("[2606:4700::1]", frozenset({53}))),
    ],
)
def test_rules_of_an_operator_are_parsed(text: str, rule: EgressRule) -> None:
    assert EgressRule.parse(text) == rule
    assert EgressRule.parse(text).private is False
    if rule.host != "*":
        assert EgressRule.parse(text, private=True) == EgressRule(
            rule.host, rule.ports, private=True
        )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("example.org:0", "'0' is no port from 1 to 65535"),
        ("example.org:65536", "'65536' is no port from 1 to 65535"),
        ("example.org:８０", "'８０' is no port from 1 to 65535"),
        ("example.org:-1", "'-1' is no port from 1 to 65535"),
        ("*.1.1.1.1", "an address has no subdomains"),
        ("*.[::1]", "an address has no subdomains"),
        ("a b", f"'a b' {NO_NAME}"),
        ("1.2.3", f"'1.2.3' {NO_ADDRESS}"),
    ],
)
def test_an_invalid_rule_is_refused_with_the_reason(text: str, reason: str) -> None:
    expected = (
        f"{text!r} is no rule; expected a name such as example.org, *.example.org or "
        f"example.org:8443 ({reason})"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(expected)}$"):
        EgressRule.parse(text)


def test_a_rule_without_a_port_allows_the_ports_80_and_443() -> None:
    assert EgressRule("example.org").ports == {80, 443}


def test_the_rule_for_every_name_cannot_be_private() -> None:
    with pytest.raises(ValueError, match="is no rule"):
        EgressRule.parse("*", private=True)


@pytest.mark.parametrize(
    ("text", "destination", "allowed"),
    [
        ("example.org", "example.org:443", True),
        ("example.org", "example.org:81", False),
        ("example.org", "xample.org:443", False),
        ("*.example.org", "a.example.org:443", True),
        ("*.example.org", "example.org:443", False),
        ("*.example.org", "aexample.org:443", False),
        ("*.example.org", "a.example.org:81", False),
        ("*", "example.org:443", True),
        ("*", "localhost:443", False),
        ("*", "1.1.1.1:443", False),
        ("1.1.1.1", "1.1.1.1:443", True),
        ("1.1.1.1", "1.1.1.1:81", False),
        ("1.1.1.1", "11.1.1.1:443", False),
        ("[2606:4700::1]", "[2606:4700::1]:443", True),
        ("[2606:4700::1]", "[2606:4700::2]:443", False),
    ],
)
def test_a_rule_allows_only_its_destinations(text: str, destination: str, allowed: bool) -> None:
    assert EgressRule.parse(text).matches(Destination.parse(destination)) is allowed


def test_a_rule_for_private_addresses_is_found_before_others() -> None:
    rules = EgressRules.parse(["lan.example", "example.org"], ["lan.example", "10.0.0.1"])
    assert [(rule.host, rule.private) for rule in rules.rules] == [
        ("lan.example", True),
        ("10.0.0.1", True),
        ("lan.example", False),
        ("example.org", False),
    ]
    assert rules.find(Destination.parse("lan.example:80")) is rules.rules[0]
    assert rules.find(Destination.parse("example.org:80")) is rules.rules[3]
    assert rules.find(Destination.parse("evil.example:80")) is None
    assert rules
    assert not EgressRules.parse([])
