"""The bucket is read from `NEKRO_CLUSTER_OBJECTS` and `NEKRO_S3__...`. Both are checked before a
request is sent."""

import pytest

from nekro_core.cluster.errors import ClusterMisconfigured
from nekro_core.cluster.s3_address import S3Address
from nekro_core.cluster.settings import S3Settings

MINIO = "https://minio.example.org:9000"


def read(text: str, environment: dict[str, str] | None = None, **settings: str) -> S3Address:
    found = S3Address.read(text, S3Settings.model_validate(settings), environment or {})
    assert found is not None
    return found


def test_objects_are_in_nats_unless_a_bucket_is_named() -> None:
    for text in ("", "nats", " nats "):
        assert S3Address.read(text, S3Settings(), {}) is None


def test_a_bucket_of_aws_is_named_in_the_host() -> None:
    address = read("s3://my-bot/team/files", region="eu-central-1")
    assert address.url("team/files/media/a=b") == (
        "https://my-bot.s3.eu-central-1.amazonaws.com/team/files/media/a%3Db"
    )
    assert address.prefix == "team/files/"
    assert address.url() == "https://my-bot.s3.eu-central-1.amazonaws.com/"
    assert "amazonaws.com.cn/" in read("s3://my-bot", region="cn-north-1").url()


def test_a_bucket_of_another_server_is_named_in_the_path() -> None:
    assert read("s3://my-bot/", endpoint=f"{MINIO}/").url("a") == f"{MINIO}/my-bot/a"
    assert read("s3://my-bot", endpoint=MINIO, addressing="host").url("a") == (
        "https://my-bot.minio.example.org:9000/a"
    )
    assert read("s3://my-bot", endpoint="https://db.example.org/storage/s3").url("a") == (
        "https://db.example.org/storage/s3/my-bot/a"
    )


def test_a_bucket_whose_name_has_dots_is_named_in_the_path_and_not_in_the_host() -> None:
    """No certificate for the server would fit such a host name."""
    assert read("s3://my.bot").url("a") == "https://s3.us-east-1.amazonaws.com/my.bot/a"


def test_variables_of_aws_stand_in_for_settings_that_are_empty() -> None:
    variables = {
        "AWS_ENDPOINT_URL": "https://other.example.org",
        "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9000",
        "AWS_DEFAULT_REGION": "us-west-2",
    }
    address = read("s3://my-bot", variables)
    assert (address.endpoint, address.region) == ("http://127.0.0.1:9000", "us-west-2")
    address = read("s3://my-bot", variables | {"AWS_REGION": "garage"}, endpoint=MINIO)
    assert (address.endpoint, address.region) == (MINIO, "garage")


@pytest.mark.parametrize(
    ("text", "settings", "says"),
    [
        ("my-bot", {}, "expected nats, or s3://BUCKET"),
        ("s3://", {}, "expected nats, or s3://BUCKET"),
        ("s3://My_Bot", {}, "expected nats, or s3://BUCKET"),
        ("s3://my..bot", {}, "expected nats, or s3://BUCKET"),
        ("https://my-bot.s3.amazonaws.com", {}, "expected nats, or s3://BUCKET"),
        ("s3://my-bot/../x", {}, "names the folder"),
        ("s3://my-bot/a b", {}, "names the folder"),
        ("s3://my-bot/" + "a" * 501, {}, "at most 500 characters"),
        ("s3://my-bot", {"region": "a region"}, "the region of S3 is 'a region'"),
        ("s3://my-bot", {"endpoint": "minio:9000"}, "expected https://HOST"),
        ("s3://my-bot", {"endpoint": "https://"}, "expected https://HOST"),
        ("s3://my-bot", {"endpoint": "https://h:99999"}, "is no URL"),
        ("s3://my-bot", {"endpoint": "https://h/?a=b"}, "expected https://HOST"),
        ("s3://my-bot", {"endpoint": "https://me:hidden@h"}, "contains a user or a password"),
        (
            "s3://my-bot",
            {"endpoint": "http://minio.example.org"},
            "send people's files unencrypted",
        ),
        ("s3://my-bot", {"endpoint": "http://10.0.0.5:9000"}, "is not on this machine"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_what_was_expected(
    text: str, settings: dict[str, str], says: str
) -> None:
    with pytest.raises(ClusterMisconfigured) as refused:
        read(text, **settings)
    assert says in str(refused.value)
    assert "hidden" not in str(refused.value)
