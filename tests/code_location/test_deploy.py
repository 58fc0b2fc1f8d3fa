"""Files in deploy/ are correct: modules, commands and variables exist, schemas hold, no secret is included."""

from __future__ import annotations

import importlib
import json
import logging
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from importlib.metadata import entry_points, version
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import dagster as dg
import pytest
import yaml
from dagster._core.instance.config import dagster_instance_config
from dagster._core.launcher import DefaultRunLauncher, WorkerStatus
from dagster._core.storage.tags import GRPC_INFO_TAG
from dagster._daemon.monitoring import concurrency
from dagster._time import get_current_datetime
from packaging.requirements import Requirement

from findingaid.config.loading import load
from findingaid.config.settings import ServeSettings, Settings
from findingaid_dagster import WatchedRunLauncher
from tests.conftest import Cli
from tests.paths import ROOT
from tests.support.deployment import until
from tools.layout import CODE_LOCATION

DEPLOY = ROOT / "deploy"
FREE_SLOTS = "free_slots_after_run_end_seconds"
BIN = Path(sys.executable).parent


def read(name: str) -> Any:
    return yaml.safe_load((DEPLOY / name).read_text())


COMPOSE = read("docker-compose.yaml")
VALUES = read("helm/values.yaml")
SERVE, SERVICE = yaml.safe_load_all((DEPLOY / "helm/serve.yaml").read_text())
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
DAGSTER = ("code", "webserver", "daemon")
OURS = (*DAGSTER, "serve")


def image_command() -> list[str]:
    command: list[str] = json.loads(re.findall(r"^CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)[0])
    return command


def helm_command() -> list[str]:
    (deployment,) = VALUES["dagster-user-deployments"]["deployments"]
    return ["dagster", "api", "grpc", "-p", str(deployment["port"]), *deployment["dagsterApiGrpcArgs"]]


def serve_pod() -> Any:
    """The container of the server on Kubernetes."""
    (container,) = SERVE["spec"]["template"]["spec"]["containers"]
    return container


def commands() -> Iterator[list[str]]:
    """Every command of ours that a service or a health check runs."""
    yield image_command()
    yield helm_command()
    yield serve_pod()["command"]
    for name in OURS:
        service = COMPOSE["services"][name]
        yield service.get("command", image_command())
        yield service["healthcheck"]["test"][1:]


def test_the_compose_file_fits_the_compose_specification() -> None:
    check = [BIN / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", DEPLOY / "docker-compose.yaml"]

    done = subprocess.run(check, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout


def test_every_service_has_a_health_check_a_limit_and_is_started_again() -> None:
    for name, service in COMPOSE["services"].items():
        if name == "bucket":  # runs once
            continue
        assert service["healthcheck"]["test"], name
        assert service["deploy"]["resources"]["limits"].keys() == {"cpus", "memory"}, name
        assert service["restart"] == "unless-stopped", name


def test_services_wait_for_those_they_need_and_every_volume_is_declared() -> None:
    services = COMPOSE["services"]
    for service in services.values():
        for needed, how in service.get("depends_on", {}).items():
            assert how["condition"] != "service_healthy" or "healthcheck" in services[needed]
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source in COMPOSE["volumes"] or source.startswith((".", "$"))


@pytest.mark.dagster_versions
def test_the_instance_is_valid_and_of_the_classes_it_names() -> None:
    config, _ = dagster_instance_config(str(DEPLOY))

    assert config["run_monitoring"]["enabled"]
    assert config["telemetry"] == {"enabled": False}
    assert config["concurrency"]["runs"]["max_concurrent_runs"] == 2
    for part in ("run_launcher", "run_coordinator"):
        named = config[part]
        assert hasattr(importlib.import_module(named["module"]), named["class"])


@pytest.mark.parametrize("folder", [DEPLOY, ROOT / ".dagster"], ids=lambda folder: folder.name)
def test_an_instance_frees_the_place_in_a_pool_of_a_run_that_was_killed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monitoring = yaml.safe_load((folder / "dagster.yaml").read_text())["run_monitoring"]
    with dg.instance_for_test(temp_dir=str(tmp_path), overrides={"run_monitoring": monitoring}) as instance:
        storage = instance.event_log_storage
        storage.set_concurrency_slots("models", 1)
        run = instance.create_run_for_job(dg.GraphDefinition("killed").to_job(), status=dg.DagsterRunStatus.STARTED)
        storage.claim_concurrency_slot("models", run.run_id, "batch")
        instance.report_run_failed(run)
        later = get_current_datetime() + timedelta(seconds=monitoring[FREE_SLOTS] + 1)
        monkeypatch.setattr(concurrency, "get_current_datetime", lambda: later)

        list(concurrency.execute_concurrency_slots_iteration(SimpleNamespace(instance=instance), logging.getLogger()))

        assert storage.get_concurrency_info("models").active_slot_count == 0


def test_the_storage_can_be_built_with_what_is_installed() -> None:
    """Plain postgresql:// cannot be, under SQLAlchemy 2.1."""
    import sqlalchemy
    from dagster_postgres.utils import pg_url_from_config

    storage = read("dagster.yaml")["storage"]["postgres"]["postgres_db"]
    scheme = storage["scheme"]
    given = {"postgres_db": {"username": "u", "password": "p", "hostname": "h", "db_name": "d", "scheme": scheme}}

    assert sqlalchemy.create_engine(pg_url_from_config(given)).driver == "psycopg2"
    assert VALUES["postgresql"]["postgresqlScheme"] == scheme


@pytest.mark.parametrize("name", DAGSTER)
def test_every_variable_that_the_instance_reads_is_set(name: str) -> None:
    wanted = set(re.findall(r"\{env: (\w+)\}", (DEPLOY / "dagster.yaml").read_text()))

    assert wanted
    assert wanted <= COMPOSE["services"][name]["environment"].keys()


def test_every_setting_in_a_variable_exists_and_the_configuration_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    (deployment,) = VALUES["dagster-user-deployments"]["deployments"]
    composed = [COMPOSE["services"][name]["environment"] for name in ("code", "serve")]
    for environment in (*composed, deployment["env"]):
        ours = {name: value for name, value in environment.items() if name.startswith("FINDINGAID__")}
        assert {name.split("__")[1].lower() for name in ours} <= Settings.model_fields.keys()
        for name in ours:
            monkeypatch.setenv(name, "")
    monkeypatch.setenv("FINDINGAID__STORE", "s3://findingaid/index")

    config = load(DEPLOY / "findingaid.yaml")

    assert config.store == "s3://findingaid/index"
    assert config.storage_options == {}


def test_every_variable_asked_of_the_user_is_in_the_example() -> None:
    asked = set(re.findall(r"(?<!\$)\$\{(\w+)", (DEPLOY / "docker-compose.yaml").read_text()))
    shown = set(re.findall(r"^#?(\w+)=", (DEPLOY / ".env.example").read_text(), re.MULTILINE))

    assert asked - {"FINDINGAID_IMAGE"} == shown


def test_no_secret_is_written_down() -> None:
    secret = re.compile(r"(password|secret|access_key|token)", re.IGNORECASE)
    example = dict(re.findall(r"^(\w+)=(.*)$", (DEPLOY / ".env.example").read_text(), re.MULTILINE))

    assert {name for name, value in example.items() if value and secret.search(name)} == set()
    for service in COMPOSE["services"].values():
        for name, value in service.get("environment", {}).items():
            assert not secret.search(name) or value.startswith("${"), name
    (deployment,) = VALUES["dagster-user-deployments"]["deployments"]
    assert not [name for name in deployment["env"] if secret.search(name)]
    assert "postgresqlPassword" not in VALUES["postgresql"]
    assert "deploy/.env" in (ROOT / ".gitignore").read_text().splitlines()


@pytest.mark.parametrize("command", sorted(map(list, {tuple(c) for c in commands()})), ids=" ".join)
def test_every_command_exists_and_has_the_options_it_is_given(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With `--help` at the end, click parses all options before it."""
    if command[0] == "python":
        compile(command[2], "healthcheck", "exec")
        return
    (program,) = entry_points(group="console_scripts", name=command[0])
    monkeypatch.setattr(sys, "argv", [*command, "--help"])

    with pytest.raises(SystemExit) as ended:
        program.load()()

    assert ended.value.code == 0
    assert "Usage:" in capsys.readouterr().out


def test_the_code_location_that_is_named_has_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FINDINGAID_CONFIG", str(ROOT / "findingaid.yaml"))
    for command in (image_command(), helm_command()):
        module = importlib.import_module(command[command.index("-m") + 1])

        assert module.defs.resolve_job_def("index")


def test_the_image_copies_what_is_there_and_lets_through() -> None:
    let_through = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)
    sources = {source for line in copied for source in line.split()}

    assert sources == let_through
    assert all((ROOT / source).exists() for source in sources)
    assert {"setup.py", "findingaid", "findingaid_dagster", *CODE_LOCATION} <= sources


def test_the_image_agrees_with_what_uses_it() -> None:
    environment = dict(re.findall(r"^(?:ENV|   ) (\w+)=(\S+)", DOCKERFILE, re.MULTILINE))
    home = environment["DAGSTER_HOME"]
    mounts = [volume for name in OURS for volume in COMPOSE["services"][name].get("volumes", [])]
    (server,) = read("workspace.yaml")["load_from"]

    assert re.search(r"^USER \d+:\d+$", DOCKERFILE, re.MULTILINE)
    assert f"./findingaid.yaml:{environment['FINDINGAID_CONFIG']}:ro" in mounts
    assert f"dagster:{home}/storage" in mounts
    for name in ("webserver", "daemon"):
        assert f"{home}/workspace.yaml" in COMPOSE["services"][name]["command"]
    assert server["grpc_server"]["host"] in COMPOSE["services"]
    assert str(server["grpc_server"]["port"]) in image_command()
    (deployment,) = VALUES["dagster-user-deployments"]["deployments"]
    assert deployment["volumeMounts"][0]["mountPath"] == str(Path(environment["FINDINGAID_CONFIG"]).parent)


def test_versions_are_those_of_the_dagster_that_is_tested() -> None:
    readme = (DEPLOY / "README.md").read_text()
    pinned = [Requirement(line) for line in (DEPLOY / "requirements.txt").read_text().splitlines() if "==" in line]

    assert f"--version {version('dagster')} " in readme
    libraries = {str(r.specifier) for r in pinned if r.name.startswith("dagster-")}
    assert libraries == {f"=={version('dagster-postgres')}"}


CHART = {
    "global", "postgresql", "generatePostgresqlPasswordSecret", "dagster-user-deployments", "runLauncher",
    "dagsterWebserver", "dagsterDaemon", "retention", "telemetry", "rabbitmq", "redis", "flower",
}  # fmt: skip
"""Keys of the chart's values.schema.json that are set here; their insides were checked against it by hand."""


def test_values_are_set_for_keys_of_the_chart_only() -> None:
    launcher = VALUES["runLauncher"]

    assert VALUES.keys() == CHART
    assert list(launcher["config"]) == [launcher["type"][0].lower() + launcher["type"][1:]]
    monitoring = VALUES["dagsterDaemon"]["runMonitoring"]
    assert monitoring["enabled"]
    assert monitoring["freeSlotsAfterRunEndSeconds"] == read("dagster.yaml")["run_monitoring"][FREE_SLOTS]


def test_the_server_on_kubernetes_is_that_of_compose_and_has_what_the_chart_has() -> None:
    (deployment,) = VALUES["dagster-user-deployments"]["deployments"]
    template, container = SERVE["spec"]["template"], serve_pod()
    named = [source["secretRef"]["name"] for source in container["envFrom"]]

    assert container["command"] == COMPOSE["services"]["serve"]["command"]
    assert container["image"] == f"{deployment['image']['repository']}:{deployment['image']['tag']}"
    assert container["env"] == [{"name": name, "value": value} for name, value in deployment["env"].items()]
    assert [secret["name"] for secret in deployment["envSecrets"]] == named[:1]
    assert template["spec"]["volumes"] == deployment["volumes"]
    assert container["volumeMounts"] == deployment["volumeMounts"]
    assert container["ports"] == [{"name": "http", "containerPort": ServeSettings().port}]
    assert SERVE["spec"]["selector"]["matchLabels"] == SERVICE["spec"]["selector"] == template["metadata"]["labels"]
    assert all(f"secret generic {name}" in (DEPLOY / "README.md").read_text() for name in named)


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


@pytest.mark.slow
def test_the_server_is_healthy_before_the_first_run_and_wants_the_token(cli: Cli) -> None:
    service = COMPOSE["services"]["serve"]
    port = str(free_port())
    check = service["healthcheck"]["test"][3].replace("8077", port)
    asked = Request(f"http://127.0.0.1:{port}/v1/status")
    cli.settings["corpora"] = read("findingaid.yaml")["corpora"]  # whose folder is not there
    cli.run("status")  # writes the configuration
    environment = {**os.environ, "FINDINGAID_CONFIG": str(cli.config), "FINDINGAID_TOKEN": "of this test"}
    server = subprocess.Popen([BIN / "findingaid", *service["command"][1:], "--port", port], env=environment)
    try:
        until(lambda: subprocess.run([sys.executable, "-c", check], check=False).returncode == 0, "it is not healthy")
        with pytest.raises(HTTPError, match="401"):
            urlopen(asked)
        asked.add_header("Authorization", "Bearer of this test")
        with urlopen(asked) as answer:
            assert json.load(answer)["published"] is None
    finally:
        server.terminate()
        server.wait(30)


@pytest.mark.slow
def test_a_run_that_went_with_its_code_location_is_noticed(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    home = cli.folder / "home"
    home.mkdir()
    storage = yaml.safe_load((ROOT / ".dagster" / "dagster.yaml").read_text())
    (home / "dagster.yaml").write_text(
        yaml.safe_dump({**storage, "run_launcher": read("dagster.yaml")["run_launcher"]})
    )
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    monkeypatch.setenv("FINDINGAID_CONFIG", str(cli.config))
    cli.run("status")  # writes the configuration
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "dagster",
        "api",
        "grpc",
        "-h",
        "127.0.0.1",
        "-p",
        str(port),
        *image_command()[-2:],
    ]

    with dg.DagsterInstance.get() as instance:
        launcher = instance.run_launcher
        run = instance.create_run_for_job(
            importlib.import_module("findingaid_dagster.pipelines.definitions").defs.resolve_job_def("index"),
            tags={GRPC_INFO_TAG: json.dumps({"host": "127.0.0.1", "port": port})},
        )
        before = launcher.check_run_worker_health(run)
        server = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            after = wait_for_an_answer(launcher, run)
        finally:
            server.kill()
            server.wait()

    assert isinstance(launcher, WatchedRunLauncher)
    assert isinstance(launcher, DefaultRunLauncher)
    assert before.status is WorkerStatus.RUNNING  # no answer: the state is unknown
    assert after.status is WorkerStatus.FAILED


def wait_for_an_answer(launcher: Any, run: dg.DagsterRun) -> Any:
    deadline = time.monotonic() + 60
    while (found := launcher.check_run_worker_health(run)).msg == "the code location does not respond":
        assert time.monotonic() < deadline, "no answer"
        time.sleep(0.5)
    return found
