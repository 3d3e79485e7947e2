"""Some addresses are public. A name that a stranger chose may resolve only to public addresses."""

import ipaddress

import pytest

from nekro_core.system.addresses import is_public


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.8.8.8", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "192.168.1.1"),
        *("169.254.169.254", "100.64.0.1", "100.100.100.200", "192.0.0.192", "198.18.0.1"),
        *("168.63.129.16", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255", "192.0.2.1"),
        *("::", "::1", "fe80::1", "fc00::1", "fd00:ec2::254", "ff02::1", "2001:db8::1", "100::1"),
        *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1"),
        *("64:ff9b::a9fe:a9fe", "64:ff9b:1::a00:1", "2002:7f00:1::", "2002:a00:1::1"),
        *("2001:0:5ef5:79fd::1", "fec0::1", "::ffff:0:127.0.0.1", "3fff::1"),
    ],
)
def test_private_addresses_are_not_public(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    "address",
    [
        *("1.1.1.1", "93.184.215.14", "2606:4700:4700::1111", "::ffff:1.1.1.1"),
        *("64:ff9b::101:101", "2002:101:101::1"),
    ],
)
def test_addresses_on_the_internet_are_public(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))
