"""Addresses of clusters: how they are written, and what is said of those at which there is no Ray to join."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import grpc
import pytest

from flexray.core.errors import ConfigError, ResourceError
from flexray.engine.hosts.ray import joining
from flexray.engine.hosts.resources import check_address
from helpers.jobs import Compose

TOKEN = "t" * 40


@pytest.mark.parametrize("address", ["auto", "10.0.0.1:6379", "head-1.my_net:6379", "[fe80::1%eth0]:6379"])
def test_an_address_is_auto_or_host_and_port(address: str, compose_job: Compose) -> None:
    assert compose_job("cluster=ray", cluster_address(address)).cluster.address == address


def cluster_address(address: str) -> str:
    return f"cluster.address='{address}'"


@pytest.mark.parametrize(
    "address",
    ["ray://127.0.0.1:10001", "http://127.0.0.1:8265", "127.0.0.1", ":6379", "10.0.0.1:0", "10.0.0.1:65536", "a b:1",
     "10.0.0.1:٣", "local", "fe80::1:6379", "10.0.0.1:", "h:" + "9" * 500, ""],
)  # fmt: skip
def test_what_is_no_address_is_refused_by_its_key(address: str, compose_job: Compose) -> None:
    with pytest.raises(ConfigError) as refused:
        compose_job("cluster=ray", cluster_address(address))
    client = "; ray:// is for Ray's client, which cannot start a run" if address.startswith("ray:") else ""
    assert str(refused.value) == (
        "cluster.address: expected auto or HOST:PORT of the cluster's head node, as in 10.0.0.1:6379,"
        f" got '{address}'{client}"
    )
    with pytest.raises(ConfigError, match="RAY_ADDRESS: expected auto or HOST:PORT"):
        check_address("RAY_ADDRESS", address)


@pytest.fixture
def silent() -> Iterator[str]:
    """Return the address of something that listens and never answers."""
    with socket.create_server(("", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


class Head(grpc.GenericRpcHandler):
    """Answers every call with a status."""

    def __init__(self, code: grpc.StatusCode) -> None:
        self._code = code
        self.headers: list[str | bytes] = []

    def service(self, details: Any) -> grpc.RpcMethodHandler:
        def answer(request: bytes, context: grpc.ServicerContext) -> bytes:
            self.headers += [value for key, value in details.invocation_metadata if key == "authorization"]
            context.abort(self._code, "as it is")

        return grpc.unary_unary_rpc_method_handler(answer)


@pytest.fixture
def head(request: pytest.FixtureRequest) -> Iterator[tuple[str, Head]]:
    """Return the address of what answers like a head node, and itself."""
    answers = Head(request.param)
    server = grpc.server(futures.ThreadPoolExecutor(1), handlers=[answers])
    port = server.add_insecure_port("0.0.0.0:0")
    server.start()
    yield f"127.0.0.1:{port}", answers
    server.stop(None).wait()


def refusal(address: str) -> str:
    with pytest.raises(ResourceError) as refused:
        joining.check_joinable(address)
    return str(refused.value)


def test_where_nothing_answers_in_time_that_is_said(silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "ANSWER_TIMEOUT_S", 0.2)
    expected = f"cluster.address: cannot use Ray at '{silent}': nothing there answers as Ray within 0.2 s"
    assert refusal(silent) == expected
    monkeypatch.setenv("RAY_ADDRESS", silent)
    assert refusal("auto") == expected


def test_where_nothing_listens_that_is_said() -> None:
    with socket.create_server(("", 0)) as closed:
        address = f"127.0.0.1:{closed.getsockname()[1]}"
    assert refusal(address).startswith(f"cluster.address: cannot use Ray at '{address}': no Ray answers there: ")


@pytest.mark.parametrize("head", [grpc.StatusCode.UNAUTHENTICATED], indirect=True)
def test_a_wrong_token_is_named_with_where_it_is_looked_for(
    head: tuple[str, Head], monkeypatch: pytest.MonkeyPatch
) -> None:
    places = "RAY_AUTH_TOKEN, in a file that RAY_AUTH_TOKEN_PATH names, or in ~/.ray/auth_token"
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    assert refusal(head[0]) == (
        f"cluster.address: cannot use Ray at '{head[0]}': it does not take the token of this process; expected that of"
        f" the cluster in {places}"
    )
    monkeypatch.delenv("RAY_AUTH_MODE")
    assert refusal(head[0]) == (
        f"cluster.address: cannot use Ray at '{head[0]}': it asks for a token; expected RAY_AUTH_MODE=token, and its"
        f" token in {places}"
    )


@pytest.mark.parametrize("head", [grpc.StatusCode.UNIMPLEMENTED], indirect=True)
def test_a_port_of_another_part_of_ray_is_refused(head: tuple[str, Head]) -> None:
    assert "another part of Ray answers there; expected its head" in refusal(head[0])
