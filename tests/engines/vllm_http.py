"""vLLM's HTTP server in processes of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
from openai import OpenAI

from tests.engines.vllm_worker import ENVIRONMENT

START_SECONDS = 600
OPTIONS = ["--enforce-eager", "--dtype", "float32", "--max-model-len", "1024", "--max-num-seqs", "16"]


@contextmanager
def vllm_server(
    model: Path, folder: Path, options: Sequence[str], environment: dict[str, str]
) -> Iterator[OpenAI]:
    """Context manager: a client of a server on this machine, which ends with the context.

    Args:
        model: folder of the model, which is served as ``tiny``.
        folder: for the server's log.
        options: of the server, besides `OPTIONS`.
        environment: besides `ENVIRONMENT`.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = ["--host", "127.0.0.1", "--port", str(port)]
    served = ["--model", str(model), "--served-model-name", "tiny"]
    log = folder / "server.log"
    with log.open("w") as output:
        server = subprocess.Popen(
            [sys.executable, "-m", "vllm.entrypoints.openai.api_server", *served, *place, *OPTIONS, *options],
            env={**os.environ, **ENVIRONMENT, **environment},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            url = f"http://127.0.0.1:{port}"
            end = time.monotonic() + START_SECONDS
            while True:
                try:
                    if httpx.get(f"{url}/health").status_code == 200:
                        break
                except httpx.TransportError:
                    pass
                assert server.poll() is None, log.read_text()[-3000:]
                assert time.monotonic() < end, log.read_text()[-3000:]
                time.sleep(1)
            with OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=120) as client:
                yield client
        finally:
            server.terminate()
            server.wait(60)
