"""Hostile clients against a server in a process of its own on this machine, beside an innocent client whose latency is measured.

python -m tests.tools.attack                       all attacks, and a control without attackers
python -m tests.tools.attack schemas --seconds 60  one of them, longer

Prints for each attack the latency of the innocent client before and during it, their ratio, the resident memory of the server, how
the attackers were answered, and whether the server still answers afterwards; the exit status is 1 where it does not. Latencies are
side by side in one run, so that their ratio says something on a busy machine, too. The attackers are a process of low priority:
elsewhere they have a machine of their own, and what they compute is no work of the server.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import itertools
import json
import os
import resource
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx

from tests.tools.soak import resident

NAME = "scripted"
SIZE = 131_072
"""Tokens of the vocabulary: as many as those of large models."""

ADDRESS = "127.0.0.2"
"""Of the innocent client: the server tells clients without keys apart by their addresses, and Linux has all of 127.0.0.0/8."""

SERVER = """
import itertools, sys
import constrained
from constrained.server import ServerSettings, serve
from constrained.testing import ScriptedModel
letters = "etaoinshrdlucmfwypvbgkqjxz ETAOINSHRDL0123456789\\"{}[]:,.-_\\\\\\n"
words = ("".join(word) for count in (2, 3, 4) for word in itertools.product(letters, repeat=count))
tokens = [bytes([i]) for i in range(256)]
tokens += [word.encode() for word in itertools.islice(words, int(sys.argv[1]) - 257)]
vocabulary = constrained.Vocabulary.from_bytes([*tokens, b""], [len(tokens)])
model = ScriptedModel(vocabulary, '{"a": 1, "b": 2, "c": [1, 2, 3]}', context=4096)
serve(model, ServerSettings(name="scripted"), port=0, on_ready=lambda url: print(url, file=sys.stderr, flush=True))
"""

Attack = Callable[["Target", int], Awaitable[str]]


class Target:
    """A server under attack.

    Args:
        url: its root.
        process: its process.
    """

    def __init__(self, url: str, process: int) -> None:
        self.url = url
        self.process = process
        self.numbers = itertools.count()

    @property
    def address(self) -> tuple[str, str]:
        """Its host and its port."""
        host, port = self.url.removeprefix("http://").split(":")
        return host, port

    def body(self, schema: Any = None, **more: Any) -> dict[str, Any]:
        """A request, with a schema if one is given."""
        body = {"model": NAME, "messages": [{"role": "user", "content": "go"}], "max_tokens": 10, **more}
        if schema is not None:
            body["response_format"] = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
        return body

    async def post(self, client: httpx.AsyncClient, body: dict[str, Any]) -> str:
        """Sends a request; its outcome in one word."""
        try:
            answer = await client.post(f"{self.url}/v1/chat/completions", json=body)
        except httpx.HTTPError as error:
            return type(error).__name__
        return "ok" if answer.status_code == 200 else f"{answer.status_code} {answer.json()['error']['code']}"


async def hostile_schemas(target: Target, turn: int) -> str:
    """A new constraint each time whose masks near a limit are slow and large."""
    number = next(target.numbers)
    schemas: list[Any] = [
        {"type": "object", "minProperties": 2, "title": str(number)},
        {"type": "string", "minLength": 50_000 + number},
        {"type": "array", "uniqueItems": True, "items": {"enum": [f"{i}-{number}" for i in range(200)]}},
    ]
    async with httpx.AsyncClient(timeout=120) as client:
        return await target.post(client, target.body(schemas[0 if turn % 4 else number % 3]))


async def large_schemas(target: Target, turn: int) -> str:
    """A new harmless constraint of 400 members each time: much work in Python."""
    number = next(target.numbers)
    members = {f"p{number}_{i}": {"type": "string", "pattern": f"^a{i}"} for i in range(400)}
    schema = {"type": "object", "properties": members, "required": [*members][:100]}
    async with httpx.AsyncClient(timeout=120) as client:
        return await target.post(client, target.body(schema, max_tokens=3000))


async def tool_sets(target: Target, turn: int) -> str:
    """A new harmless schema of 15,000 members each time, 300 KB."""
    number = next(target.numbers)
    schema = {"type": "object", "properties": {f"p{number}_{i}": {} for i in range(15_000)}}
    async with httpx.AsyncClient(timeout=120) as client:
        return await target.post(client, target.body(schema))


async def big_body(target: Target, turn: int) -> str:
    """100 MB, announced or not."""

    async def endless() -> Any:
        for _ in range(1600):
            yield b" " * 65536

    async with httpx.AsyncClient(timeout=60) as client:
        content: Any = endless() if turn % 2 else b" " * 100_000_000
        try:
            answer = await client.post(f"{target.url}/v1/chat/completions", content=content)
        except httpx.HTTPError as error:
            return type(error).__name__
        return str(answer.status_code)


async def many_values(target: Target, turn: int) -> str:
    """8 MB, as large as a body may be, of a quarter of a million messages or of very many empty arrays; or 9,000 messages."""
    message = {"role": "user", "content": "x"}
    body = target.body(messages=[message] * (180_000 if turn % 3 else 9_000))
    if turn % 3 == 1:
        body = {**target.body(), "structured_outputs": {"json": [[]] * 1_900_000}}
    content = await asyncio.to_thread(lambda: json.dumps(body).encode())
    async with httpx.AsyncClient(timeout=60) as client:
        try:
            answer = await client.post(f"{target.url}/v1/chat/completions", content=content)
        except httpx.HTTPError as error:
            return type(error).__name__
        return f"{answer.status_code} {answer.json().get('error', {}).get('code', '')}"


async def huge_text(target: Target, turn: int) -> str:
    """A text of 5 MB, for which the model's context has no room, in one message."""
    body = target.body(messages=[{"role": "user", "content": "one word, " * 500_000}])
    async with httpx.AsyncClient(timeout=60) as client:
        return await target.post(client, body)


async def captured_parts(target: Target, turn: int) -> str:
    """A text that can be read in very many ways, with all of its parts."""
    grammar = "start: a\na[capture]: /[a-zA-Z0-9 ]/ | a a"
    body = target.body(structured_outputs={"grammar": grammar}, temperature=100, max_tokens=100)
    async with httpx.AsyncClient(timeout=60) as client:
        return await target.post(client, body)


async def slow_head(target: Target, turn: int) -> str:
    """A connection that sends a byte a second."""
    _, writer = await asyncio.open_connection(*target.address)
    try:
        for byte in b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Long: " + b"x" * 3600:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(1)
    except OSError:
        pass
    finally:
        writer.close()
    return "closed by the server"


async def hang_up(target: Target, turn: int) -> str:
    """A stream that is left after its first lines."""
    schema = {"type": "array", "items": {"type": "integer"}, "minItems": 100}
    async with (
        httpx.AsyncClient(timeout=60) as client,
        client.stream(
            "POST",
            f"{target.url}/v1/chat/completions",
            json=target.body(schema, max_tokens=400, stream=True),
        ) as answer,
    ):
        async for _ in answer.aiter_lines():
            break
        return f"{answer.status_code}, left"


async def idle_connection(target: Target, turn: int) -> str:
    """A connection with half a head that waits for its end."""
    reader, writer = await asyncio.open_connection(*target.address)
    try:
        writer.write(b"GET /health HTTP/1.1\r\nHost: x\r\nX: ")
        return "closed by the server" if await reader.read() == b"" else "answered"
    finally:
        writer.close()


async def pipelined(target: Target, turn: int) -> str:
    """A thousand requests for the metrics in one piece."""
    reader, writer = await asyncio.open_connection(*target.address)
    try:
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 1000)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        return f"{(await reader.read()).count(b'HTTP/1.1 200')} of 1001 answered"
    finally:
        writer.close()


async def forged(target: Target, turn: int) -> str:
    """The innocent client's address in a header, to use up what it may ask for."""
    schema = {"type": "array", "items": {"type": "integer"}, "minItems": 100}
    async with httpx.AsyncClient(timeout=60, headers={"X-Forwarded-For": ADDRESS}) as client:
        return await target.post(client, target.body(schema, max_tokens=400))


async def extractions(target: Target, turn: int) -> str:
    """A text of 300 words that is read into a new schema each time: some strings, numbers and lists, or a list of records."""
    number = next(target.numbers)
    members = {f"m{number}_{i}": {"type": kind} for i in range(4) for kind in ("string", "integer")}
    members["tags"] = {"type": "array", "items": {"type": "string"}}
    schema: Any = {"type": "object", "properties": members, "required": [*members][:4]}
    if turn % 2:
        schema = {"type": "object", "properties": {"people": {"type": "array", "items": schema}}}
    text = " ".join(f"Ada{i} of Oslo has {i} cats, red, green and blue ones." for i in range(30))
    async with httpx.AsyncClient(timeout=120) as client:
        message = [{"role": "user", "content": text}]
        return await target.post(
            client, target.body(schema, messages=message, max_tokens=400, extraction=True)
        )


async def read_calls(target: Target, turn: int) -> str:
    """A new set of ten tools each time, one of which is decided and read."""
    number = next(target.numbers)
    parameters = {"type": "object", "properties": {"name": {"type": "string"}, "count": {"type": "integer"}}}
    tools = [
        {"name": f"f{i}", "description": f"Does thing {number} {i}", "parameters": parameters}
        for i in range(10)
    ]
    more = {"tools": tools, "tool_choice": "required" if turn % 2 else "auto", "extraction": True}
    async with httpx.AsyncClient(timeout=120) as client:
        return await target.post(client, target.body(max_tokens=100, **more))


ATTACKS: dict[str, tuple[Attack, int]] = {
    "schemas": (hostile_schemas, 8),
    "large schemas": (large_schemas, 8),
    "tool sets": (tool_sets, 4),
    "bodies": (big_body, 4),
    "many values": (many_values, 4),
    "huge texts": (huge_text, 4),
    "captures": (captured_parts, 8),
    "extractions": (extractions, 4),
    "read calls": (read_calls, 4),
    "slow heads": (slow_head, 200),
    "disconnects": (hang_up, 16),
    "idle connections": (idle_connection, 1030),
    "pipelined": (pipelined, 4),
    "forged addresses": (forged, 64),
    "nobody": (idle_connection, 0),
}
"""By name: the attack, and how many of its clients attack at a time. The last one is a control."""


async def innocent(target: Target, seconds: float) -> tuple[list[float], Counter[str]]:
    """Latencies of a client that asks for one known schema, again and again."""
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    found, outcomes, end = [], Counter[str](), time.monotonic() + seconds
    transport = httpx.AsyncHTTPTransport(local_address=ADDRESS)
    async with httpx.AsyncClient(timeout=120, transport=transport) as client:
        while time.monotonic() < end:
            began = time.perf_counter()
            outcomes[await target.post(client, target.body(schema, temperature=0))] += 1
            found.append(time.perf_counter() - began)
            await asyncio.sleep(0.02)
    del found[:2]  # the first connection, and a constraint that nobody knows yet
    return found, outcomes


async def attackers(target: Target, seconds: float, name: str) -> Counter[str]:
    """The clients of an attack, each again and again; how they were answered."""
    os.nice(19)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    attack, clients = ATTACKS[name]
    outcomes: Counter[str] = Counter()

    async def repeat() -> None:
        for turn in itertools.count():
            outcomes[await attack(target, turn)] += 1

    tasks = [asyncio.create_task(repeat()) for _ in range(clients)]
    await asyncio.sleep(seconds)
    for task in tasks:
        task.cancel()
    for error in await asyncio.gather(*tasks, return_exceptions=True):
        if not isinstance(error, asyncio.CancelledError):
            outcomes[type(error).__name__] += 1
    return outcomes


async def elsewhere(target: Target, seconds: float, *which: str) -> Any:
    """What this program prints in a process of its own, with these arguments."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.tools.attack", *which, "--url", target.url, "--seconds", str(seconds)),
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    text, _ = await process.communicate()
    return json.loads(text)


async def attacked(target: Target, name: str, seconds: float) -> bool:
    """Runs one attack and prints it as a row of a table; whether the server answers afterwards."""
    before, _ = await elsewhere(target, seconds / 2, "innocent")
    start = resident(target.process)
    outcomes, (during, answers) = await asyncio.gather(
        elsewhere(target, seconds + 2, name), elsewhere(target, seconds, "innocent")
    )
    _, last = await innocent(target, 1)
    cells = [
        name,
        *(f"{_quantile(times, q) * 1e3:.0f}" for times in (before, during) for q in (0.5, 0.99)),
        f"{_quantile(during, 0.99) / _quantile(before, 0.99):.1f}",
        f"{start >> 20} / {resident(target.process) >> 20}",
        ", ".join(f"{count} {what}" for what, count in Counter(outcomes).most_common(6))
        or f"{ATTACKS[name][1]} open",
        f"{answers}, afterwards {dict(last)}",
    ]
    print(" | ".join(cells), flush=True)
    return set(last) == {"ok"}


def _quantile(values: list[float], q: float) -> float:
    return (
        statistics.quantiles(values * 2, n=1000, method="inclusive")[round(q * 1000) - 1]
        if values
        else float("nan")
    )


@contextlib.contextmanager
def served() -> Iterator[Target]:
    """A server in a process of its own; prints at the end whether it is alive, and its memory."""
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(SIZE)],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    try:
        assert process.stderr is not None
        said = []
        for line in process.stderr:
            said.append(line)
            if line.startswith("http"):
                break
        else:
            raise RuntimeError("the server did not start:\n" + "".join(said))
        threading.Thread(target=process.stderr.read, daemon=True).start()  # a full pipe would stop it
        yield Target(said[-1].strip(), process.pid)
        print(json.dumps({"alive": process.poll() is None, "MiB": resident(process.pid) >> 20}))
    finally:
        process.terminate()
        process.wait(90)


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("attacks", nargs="*", help=f"some of {', '.join(ATTACKS)} [default: all]")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each attack")
    parser.add_argument(
        "--url", help=argparse.SUPPRESS
    )  # of the server, for its clients, which are processes too
    options = parser.parse_args()
    if options.url:
        (name,) = options.attacks
        target = Target(options.url, 0)
        run = (innocent if name == "innocent" else functools.partial(attackers, name=name))(
            target, seconds=options.seconds
        )
        print(json.dumps(asyncio.run(run)))
        return 0
    if unknown := set(options.attacks) - set(ATTACKS):
        parser.error(f"no such attack: {', '.join(sorted(unknown))}")
    with served() as target:
        print(
            "attack | before p50, p99, ms | during p50, p99, ms | p99 ratio | MiB before / after | attackers | innocent"
        )
        answers = [
            asyncio.run(attacked(target, name, options.seconds)) for name in options.attacks or ATTACKS
        ]
    return 0 if all(answers) else 1


if __name__ == "__main__":
    sys.exit(main())
