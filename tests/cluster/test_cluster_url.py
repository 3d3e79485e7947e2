"""`NEKRO_CLUSTER_URL` is checked before a connection is made."""

import pytest

from nekro_core.cluster.cluster_url import read_cluster_url
from nekro_core.cluster.errors import ClusterMisconfigured


def test_a_server_on_this_machine_needs_no_password() -> None:
    url = read_cluster_url("nats://127.0.0.1:4333, nats://[::1] ,nats://localhost")
    assert url.servers == ("nats://127.0.0.1:4333", "nats://[::1]:4222", "nats://localhost:4222")
    assert not url.encrypted


def test_a_server_elsewhere_needs_a_password_and_tls() -> None:
    url = read_cluster_url("tls://worker:s3cret@nats.example.org")
    assert url.encrypted
    assert url.servers == ("tls://worker:s3cret@nats.example.org:4222",)
    assert "s3cret" not in f"{url} {url!r}"


def test_the_password_does_not_depend_on_the_order_of_the_servers() -> None:
    servers = ("nats://gateway:a%2Fb@127.0.0.1:4333", "nats://[::1]", "nats://g:a%2Fb@localhost")
    for text in (",".join(servers), ",".join(reversed(servers)), f"{servers[1]},{servers[0]}"):
        assert read_cluster_url(text).password == "a/b"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "is empty"),
        (" , ", "is empty"),
        ("127.0.0.1:4222", "expected nats://HOST:PORT"),
        ("http://127.0.0.1", "expected nats://HOST:PORT"),
        ("nats://", "expected nats://HOST:PORT"),
        ("nats://127.0.0.1:99999", "is no URL"),
        ("nats://127.0.0.1:4222/path", "with a path"),
        ("nats://10.0.0.5:4222", "no user and password"),
        ("nats://worker@10.0.0.5:4222", "no user and password"),
        ("tls://nats.example.org", "no user and password"),
        ("nats://worker:s3cret@10.0.0.5", "unencrypted"),
        ("nats://worker:s3cret@localhost.example.org", "unencrypted"),
        ("nats://127.0.0.1,tls://a:s3cret@10.0.0.5", "mixes"),
        ("nats://a:s3cret@127.0.0.1,nats://a:other-s3cret@localhost", "several passwords"),
    ],
)
def test_a_wrong_address_is_refused_without_its_password(text: str, expected: str) -> None:
    with pytest.raises(ClusterMisconfigured, match=expected) as caught:
        read_cluster_url(text)
    assert "s3cret" not in str(caught.value)
