"""Whether the Ray at an address can be joined: checked first, since Ray itself would try for half a minute."""

from __future__ import annotations

import os

import grpc
from ray._private import services
from ray._private.authentication import authentication_token_setup
from ray._private.grpc_utils import init_grpc_channel
from ray.core.generated import gcs_service_pb2, gcs_service_pb2_grpc
from ray.exceptions import AuthenticationError

from flexray.core.errors import ResourceError
from flexray.engine.hosts.resources import AUTO, check_address

ANSWER_TIMEOUT_S = 5.0

PLACES = "RAY_AUTH_TOKEN, in a file that RAY_AUTH_TOKEN_PATH names, or in ~/.ray/auth_token"
"""Where Ray looks for a token."""


def check_joinable(address: str) -> None:
    """Refuse an address at which no Ray answers, or one that does not take this process's token.

    Args:
        address: ``auto`` or ``HOST:PORT``.

    Raises:
        flexray.core.errors.UserError: One line that says what is there instead.
    """
    if address == AUTO:
        address = check_address("RAY_ADDRESS", os.environ.get("RAY_ADDRESS") or AUTO)
    try:
        head = str(services.canonicalize_bootstrap_address(address))
        if address == AUTO and hasattr(authentication_token_setup, "maybe_enable_token_auth_if_token_available"):
            authentication_token_setup.maybe_enable_token_auth_if_token_available(warn_if_disabled=False)  # as Ray does
        with init_grpc_channel(head) as channel:
            request = gcs_service_pb2.GetClusterIdRequest()
            gcs_service_pb2_grpc.NodeInfoGcsServiceStub(channel).GetClusterId(request, timeout=ANSWER_TIMEOUT_S)
    except (AuthenticationError, OSError, ValueError, grpc.RpcError) as error:
        raise cannot_use(address, error) from error


def cannot_use(address: str | None, error: Exception) -> ResourceError:
    """Return the one line that says why the Ray at an address cannot be joined; None: one's own cannot be started."""
    if address == AUTO and isinstance(error, ConnectionError):
        found = "no Ray runs on this machine; expected HOST:PORT of a cluster's head node, here or in RAY_ADDRESS"
        return ResourceError(f"cluster.address: {found}")
    if isinstance(error, AuthenticationError):
        reason = f"{error.message.split('. ')[0]}; expected a token in {PLACES}"
    elif isinstance(error, grpc.RpcError):
        reason = _answer(error)
    else:
        reason = str(error).splitlines()[0]
    what = "cluster: cannot start Ray" if address is None else f"cluster.address: cannot use Ray at '{address}'"
    return ResourceError(f"{what}: {reason}")


def _answer(error: grpc.RpcError) -> str:
    """Return what is wrong with what answers at an address, if anything does."""
    code = error.code()
    if code == grpc.StatusCode.UNAUTHENTICATED:
        if os.environ.get("RAY_AUTH_MODE", "").lower() != "token":
            return f"it asks for a token; expected RAY_AUTH_MODE=token, and its token in {PLACES}"
        return f"it does not take the token of this process; expected that of the cluster in {PLACES}"
    if code == grpc.StatusCode.DEADLINE_EXCEEDED:
        return f"nothing there answers as Ray within {ANSWER_TIMEOUT_S:g} s"
    if code == grpc.StatusCode.UNIMPLEMENTED:
        return "another part of Ray answers there; expected its head, at the address that `ray start --head` prints"
    return f"no Ray answers there: {str(error.details()).rpartition('last error: ')[2]}"
