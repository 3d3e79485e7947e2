"""The settings of the object store on S3, under ``NEKRO_S3__``."""

from typing import Literal

from pydantic import ConfigDict, SecretStr

from nekro_core.system.live_settings import LiveSettings


class S3Settings(LiveSettings):
    """How to reach the S3 server that ``NEKRO_CLUSTER_OBJECTS`` names. What is empty comes from the
    usual variables of AWS."""

    model_config = ConfigDict(hide_input_in_errors=True)

    endpoint: str = ""
    """The server's address: ``https://minio.example.org:9000``. ``http://`` is accepted on this
    machine alone. If it is empty, ``AWS_ENDPOINT_URL_S3`` or ``AWS_ENDPOINT_URL`` applies, else
    AWS."""
    region: str = ""
    """The region of the bucket. If it is empty, ``AWS_REGION`` or ``AWS_DEFAULT_REGION`` applies,
    else ``us-east-1``."""
    access_key: SecretStr = SecretStr("")
    """The access key. If it is empty, the credentials come from where AWS's programs find them:
    variables, the file ``~/.aws/credentials``, the role of the machine."""
    secret_key: SecretStr = SecretStr("")
    """The secret that belongs to ``access_key``."""
    addressing: Literal["auto", "path", "host"] = "auto"
    """Where requests name the bucket: in the ``path`` of the URL or in the name of the ``host``.
    ``auto``: in the host for AWS, in the path for other servers. Some providers need ``host``."""
