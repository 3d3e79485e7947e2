"""compose.yaml names settings, files and services that exist, and NapCat reaches the bot."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from nekro_core.app.settings import Settings
from nekro_core.console.access.settings import AccessSettings
from nekro_core.sandbox.settings import BackendName
from tests.deploy.composed import FILE, ROOT, composed, in_network, run_options, variables
from tests.e2e.bot_process import running_bot
from tests.e2e.whole_bot import TOKEN, ModelByChat, model_settings
from tests.peers.onebot_v11 import OneBotPeer
from tests.peers.scripted_model import ScriptedModelServer

BOT = composed()["services"]["bot"]
PROFILES = {"napcat", "postgres", "engine", "cluster"}
DEPLOYING = ROOT / "docs/deploying.md"


def test_without_a_profile_compose_starts_only_the_bot() -> None:
    services = composed()["services"]
    assert [name for name, each in services.items() if "profiles" not in each] == ["bot"]
    assert {each for one in services.values() for each in one.get("profiles", ())} == PROFILES


def test_the_bot_is_confined_and_can_make_boxes() -> None:
    assert run_options(BOT) == [
        "--init",
        "--read-only",
        *("--cap-drop", "ALL"),
        *("--security-opt", "seccomp=deploy/seccomp.json"),
        *("--security-opt", "apparmor=unconfined"),
        *("--security-opt", "systempaths=unconfined"),
        *("--security-opt", "no-new-privileges"),
        *("--tmpfs", "/tmp:exec,mode=1777"),
    ]
    assert "privileged" not in BOT
    assert "user" not in BOT, "the image has the user"


def test_only_the_bot_reaches_the_proxy_through_which_the_engine_is_asked() -> None:
    """Whoever can make containers is root on the engine's machine."""
    read = composed()
    assert read["networks"] == {"engine": {"internal": True}, "cluster": {"internal": True}}
    assert read["services"]["engine"]["networks"] == ["engine"]
    assert in_network("engine") == {"bot", "worker1", "worker2", "worker3", "engine"}


@pytest.mark.parametrize("service", composed()["services"])
def test_ports_are_open_on_this_machine_only(service: str) -> None:
    for port in composed()["services"][service].get("ports", ()):
        assert port.startswith("127.0.0.1:")


def test_every_file_and_volume_that_compose_yaml_names_exists() -> None:
    read = composed()
    used = [each for one in read["services"].values() for each in one.get("volumes", ())]
    for source in (each.split(":")[0] for each in used):
        if source.startswith("./"):
            assert (ROOT / source).exists()
        elif not source.startswith("/"):
            assert source in read["volumes"]
    assert (ROOT / BOT["build"]["dockerfile"]).is_file()
    (profile,) = (each for each in BOT["security_opt"] if each.startswith("seccomp="))
    assert (ROOT / profile.partition("=")[2]).is_file()


def test_the_settings_that_compose_yaml_gives_to_the_bot_exist(tmp_path: Path) -> None:
    written = {name: value for name, value in BOT["environment"].items() if value is not None}
    lines = (f"{name}={value}" for name, value in written.items())
    (tmp_path / ".env").write_text("\n".join(lines) + "\n")
    loaded = Settings.load(tmp_path)
    assert loaded.nekro_sandbox.backend is BackendName.AUTO
    assert loaded.database_url.startswith("sqlite://")
    access = AccessSettings.read({"web_allowed_hosts": written["WEB_ALLOWED_HOSTS"]})
    assert access.web_allowed_hosts == {"bot"}
    # Compose takes the value of a variable that has none in the file from its own environment.
    passed_on = {name.lower() for name, value in BOT["environment"].items() if value is None}
    fields = set(Settings.model_fields)
    known = {name for name in passed_on if name.split("__")[0] in fields}
    assert passed_on - known == {"onebot_access_token"}


def test_the_page_may_be_opened_at_the_public_host_and_at_the_name_of_the_service() -> None:
    environment = composed({"PUBLIC_HOST": "bot.example.com"})["services"]["bot"]["environment"]
    access = AccessSettings.read({"web_allowed_hosts": environment["WEB_ALLOWED_HOSTS"]})
    assert access.web_allowed_hosts == {"bot", "bot.example.com"}


def test_the_docker_command_of_the_guide_has_the_options_of_compose_yaml() -> None:
    text = DEPLOYING.read_text("utf-8").replace("\\\n", " ")
    (line,) = re.findall(r"^docker run --detach .+$", text, re.MULTILINE)
    given = line.split()
    options = run_options(BOT)
    assert [word for word in given if word in options] == options
    assert given[given.index("--publish") + 1] == BOT["ports"][0]
    assert given[given.index("--volume") + 1].endswith(f":{BOT['volumes'][0].partition(':')[2]}")


def test_the_address_of_the_database_in_the_guide_fits_the_service() -> None:
    (address,) = set(re.findall(r"asyncpg://\S+", DEPLOYING.read_text("utf-8")))
    parts = urlsplit(address)
    postgres = composed({"POSTGRES_PASSWORD": "secret"})["services"]["postgres"]
    assert parts.hostname in composed()["services"]
    assert parts.username == postgres["environment"]["POSTGRES_USER"]
    assert parts.path == f"/{postgres['environment']['POSTGRES_DB']}"
    assert postgres["environment"]["POSTGRES_PASSWORD"] == "secret"


def test_the_guide_names_every_variable_of_compose_yaml() -> None:
    text = DEPLOYING.read_text("utf-8")
    assert {each for each in variables() if each not in text} == set()


def test_the_proxy_lets_only_the_calls_of_boxes_through() -> None:
    proxy = composed()["services"]["engine"]
    (source,) = (each for each in proxy["volumes"] if each.startswith("./"))
    rules = _rules((ROOT / source.split(":")[0]).read_text())
    id_ = "0f" * 32
    for method, path in (
        ("GET", "/v1.41/info"),
        ("GET", "/version"),
        ("GET", "/v1.41/images/json"),
        ("GET", "/v1.41/images/example.org/a/python:3.12/json"),
        ("GET", "/v1.41/containers/json"),
        ("POST", "/v1.41/containers/create"),
        ("POST", f"/v1.41/containers/{id_}/start"),
        ("POST", f"/v1.41/containers/{id_}/attach"),
        ("POST", f"/v1.41/containers/{id_}/exec"),
        ("POST", f"/v1.41/exec/{id_}/start"),
        ("DELETE", f"/v1.41/containers/{id_}"),
    ):
        assert _allowed(rules, method, path), (method, path)
    for method, path in (
        ("POST", "/v1.41/build"),
        ("POST", "/v1.41/images/create"),
        ("DELETE", "/v1.41/images/python"),
        ("GET", f"/v1.41/containers/{id_}/archive"),
        ("PUT", f"/v1.41/containers/{id_}/archive"),
        ("POST", f"/v1.41/containers/{id_}/update"),
        ("GET", "/v1.41/secrets"),
        ("POST", "/v1.41/volumes/create"),
        ("GET", "/v1.41/volumes"),
        ("POST", "/v1.41/swarm/init"),
        ("POST", "/v1.41/containers/prune"),
    ):
        assert not _allowed(rules, method, path), (method, path)


def test_haproxy_accepts_the_rules() -> None:
    haproxy = shutil.which("haproxy", path=f"{os.environ['PATH']}:/usr/sbin")
    if haproxy is None:
        pytest.skip("haproxy is not installed (Debian: haproxy)")
    done = subprocess.run(
        [haproxy, "-c", "-f", ROOT / "deploy/engine-proxy.cfg"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _rules(text: str) -> list[tuple[set[str], re.Pattern[str]]]:
    """Return the HTTP methods and the pattern of paths of each rule by which the proxy allows a
    request."""
    methods = {
        name: set(words.split()) for name, words in re.findall(r"acl (\w+) method (.+)", text)
    }
    paths = {name: re.compile(p) for name, p in re.findall(r"acl (\w+) path_reg (\S+)", text)}
    allowed = re.findall(r"http-request allow if (\w+) (\w+)", text)
    assert "http-request deny" in text
    return [(methods[method], paths[path]) for method, path in allowed]


def _allowed(rules: list[tuple[set[str], re.Pattern[str]]], method: str, path: str) -> bool:
    return any(method in methods and pattern.search(path) for methods, pattern in rules)


@pytest.mark.parametrize(
    "profiles", ["", "napcat", "postgres", "cluster", "napcat,postgres,engine"]
)
def test_compose_accepts_the_file(profiles: str) -> None:
    command = _compose()
    if command is None:
        pytest.skip("neither `docker compose` nor docker-compose is installed")
    chosen = [word for each in profiles.split(",") if each for word in ("--profile", each)]
    done = subprocess.run(
        [*command, "--file", FILE, *chosen, "config"],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    # The older docker-compose also prints the services of profiles that were not chosen.
    chosen_services = {
        name
        for name, each in composed()["services"].items()
        if set(profiles.split(",")) & set(each.get("profiles", ()))
    }
    wanted = {"bot", *chosen_services}
    assert wanted <= set(yaml.safe_load(done.stdout)["services"])


def _compose() -> list[str] | None:
    if docker := shutil.which("docker"):
        asked = subprocess.run([docker, "compose", "version"], check=False, capture_output=True)
        if asked.returncode == 0:
            return [docker, "compose"]
    found = shutil.which("docker-compose")
    return [found] if found else None


@pytest.mark.long
async def test_napcat_reaches_the_bot_by_the_name_of_the_bots_service(tmp_path: Path) -> None:
    """The test uses the address that the guide tells the operator to enter on NapCat's page."""
    (address,) = set(re.findall(r"ws://bot:\S+?(?=[`\s])", DEPLOYING.read_text("utf-8")))
    parts = urlsplit(address)
    assert parts.hostname in composed()["services"]
    assert str(parts.port) == BOT["ports"][0].rpartition(":")[2]
    hosts = {"WEB_ALLOWED_HOSTS": BOT["environment"]["WEB_ALLOWED_HOSTS"]}
    script = ModelByChat()
    async with ScriptedModelServer(script) as model:
        settings = model_settings(model) | hosts
        async with running_bot(tmp_path, **settings) as bot:
            through = ("127.0.0.1", urlsplit(bot.address).port or 0)
            async with OneBotPeer("20002", TOKEN, address, through=through) as napcat:
                await napcat.wait_connected()
                await napcat.say_in_group(40001, 10001, "hello", at_me=True)
                await napcat.until(lambda: bool(napcat.sends), 60.0)
            async with OneBotPeer("20003", "a wrong token", address, through=through) as stranger:
                await stranger.until(lambda: bool(stranger.refusals), 60.0)
                assert stranger.connections == 0
