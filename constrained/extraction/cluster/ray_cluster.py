"""The Ray cluster that a program works on: the one it is connected to, one at an address, or one of this machine alone."""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import os
import re
import socket
from collections.abc import Iterator
from typing import Any

from constrained.errors import InvalidArgument
from constrained.extras import require_extra

_LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Ray's variable with which its processes of one machine listen on the loopback address; 0 is its own default on Windows
and macOS. The arguments for an address of the node do not have this effect: Ray replaces 127.0.0.1 by another one."""

_START_NEXT = "check --address; without one a cluster is started here, for which this machine may be too busy"


def load_ray() -> Any:
    """The library, with Ray Data.

    Raises:
        MissingExtra: it is not installed.
    """
    with require_extra("ray"):
        import ray
        import ray.data
    return ray


@contextlib.contextmanager
def connected(address: str | None, *, cores: int) -> Iterator[Any]:
    """Connects to a cluster for a while; a cluster that the program is connected to already is used as it is.

    Args:
        address: of the cluster's head; None: that of ``RAY_ADDRESS``, or else a cluster is started that listens on the
            loopback address alone, and is ended afterwards.
        cores: of a cluster that is started: an actor without cores would wait forever.

    Yields:
        The library.

    Raises:
        InvalidArgument: there is no cluster at the address, or none can be started.
        MissingExtra: Ray is not installed.
    """
    ray = load_ray()
    if ray.is_initialized():
        yield ray
        return
    address = address or os.environ.get("RAY_ADDRESS")
    with contextlib.ExitStack() as stack:
        stack.callback(ray.shutdown)
        try:
            if address:
                _check_reachable(address)
                ray.init(address, logging_level=logging.ERROR, log_to_driver=False)
            else:
                stack.enter_context(_loopback_only())
                ray.init(
                    num_cpus=max(os.cpu_count() or 1, cores + 1),  # one for Ray Data's own work
                    include_dashboard=False,
                    logging_level=logging.ERROR,
                    log_to_driver=False,
                )
                _check_loopback(ray)
        except Exception as error:  # Ray has no name for a start that took too long
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise InvalidArgument(
                f"there is no Ray cluster to work on: {reason}", action=_START_NEXT
            ) from None
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        yield ray


def _check_reachable(address: str) -> None:
    """Ray itself would wait for minutes where nobody answers.

    Raises:
        OSError: nobody does.
    """
    if place := re.fullmatch(r"(?:ray://)?\[?([^\[\]]+?)\]?:(\d+)", address):
        socket.create_connection((place[1], int(place[2])), timeout=10).close()


@contextlib.contextmanager
def _loopback_only() -> Iterator[None]:
    """Ray's processes that are started here meanwhile listen on the loopback address."""
    from ray._private import ray_constants

    before, known = os.environ.get(_LOOPBACK), getattr(ray_constants, "ENABLE_RAY_CLUSTER", None)
    os.environ[_LOOPBACK] = "0"  # for the processes
    ray_constants.ENABLE_RAY_CLUSTER = False  # for this one, which has read the variable
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = known
        if before is None:
            os.environ.pop(_LOOPBACK, None)
        else:
            os.environ[_LOOPBACK] = before


def _check_loopback(ray: Any) -> None:
    for node in ray.nodes():
        if not ipaddress.ip_address(node["NodeManagerAddress"]).is_loopback:
            raise OSError(
                f"it would listen on {node['NodeManagerAddress']}, and not on the loopback address alone"
            )
