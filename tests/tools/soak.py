"""Many requests of every kind against a server in a process of its own: every answer is valid or a typed error.

python -m tests.tools.soak --requests 2000 --clients 32
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import httpx
from jsonschema import Draft202012Validator

SCHEMAS: list[Any] = [
    {"type": "object", "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer", "minimum": 0, "maximum": 150}}, "required": ["name", "age"], "additionalProperties": False},
    {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "minItems": 1, "maxItems": 4},
    {"type": "object", "properties": {"when": {"type": "string", "format": "date"}, "ok": {"type": "boolean"}}, "required": ["when"], "additionalProperties": False},
    {"anyOf": [{"type": "integer", "multipleOf": 5}, {"type": "string", "pattern": "^[A-Z]{2}[0-9]{3}$"}]},
    {"type": "object", "properties": {"tree": {"$ref": "#/$defs/t"}}, "required": ["tree"], "additionalProperties": False, "$defs": {"t": {"type": "object", "properties": {"v": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/t"}, {"type": "null"}]}}, "required": ["v", "next"], "additionalProperties": False}}},
]  # fmt: skip
MALFORMED: list[Any] = [
    b"{",
    b"[]",
    {"model": "other", "messages": [{"role": "user", "content": "x"}]},
    {"messages": []},
    {"structured_outputs": {"regex": "(a"}},
    {"structured_outputs": {"json": {"type": "string", "pattern": r"(a)\1"}}},
    {"structured_outputs": {"json": {"type": "array", "minItems": 3, "maxItems": 1}}},
    {"temperature": "hot"},
    {"guided_jason": {}},
]
NAME = "constrained-tiny"


class Soak:
    """The clients, and what they have seen."""

    def __init__(self, url: str, process: int, options: argparse.Namespace) -> None:
        self.url = url
        self.process = process
        self.options = options
        self.outcomes: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.seconds: defaultdict[str, list[float]] = defaultdict(list)
        self.memory: list[int] = []

    async def run(self) -> None:
        random_ = random.Random(self.options.seed)
        left = iter([(i, random_.random(), random_.randrange(1 << 30)) for i in range(self.options.requests)])
        limits = httpx.Limits(max_connections=self.options.clients)
        samples: list[int] = []
        async with httpx.AsyncClient(timeout=300, limits=limits, base_url=self.url) as client:

            async def work() -> None:
                for i, kind, seed in left:
                    await self.one(client, i, kind, random.Random(seed))
                    done = sum(self.outcomes.values())
                    samples.append(resident(self.process))
                    if done % max(1, self.options.requests // 10) == 0:
                        self.memory.append(min(samples))  # between two trimmings there is more
                        samples.clear()
                        reply = f"{done}: {dict(self.outcomes)}, {self.memory[-1] >> 20} MiB"
                        print(reply, file=sys.stderr, flush=True)

            await asyncio.gather(*(work() for _ in range(self.options.clients)))

    async def one(self, client: httpx.AsyncClient, i: int, kind: float, random_: random.Random) -> None:
        if kind < 0.05:
            await self.malformed(client, random_)
        elif kind < 0.10:
            await self.abandoned(client, random_)
        else:
            await self.run_request(client, i, random_)

    def body(self, random_: random.Random, **more: Any) -> dict[str, Any]:
        return {
            "model": NAME,
            "messages": [
                {"role": "user", "content": f"Say something about {random_.choice(('rain', 'Rome'))}."}
            ],
            "max_tokens": 40,
            "seed": random_.randrange(1 << 30),
            **more,
        }

    async def malformed(self, client: httpx.AsyncClient, random_: random.Random) -> None:
        change = random_.choice(MALFORMED)
        content = (
            change if isinstance(change, bytes) else json.dumps({**self.body(random_), **change}).encode()
        )
        answer = await client.post("/chat/completions", content=content)
        if answer.status_code in (400, 404) and answer.json()["error"]["message"]:
            self.outcomes["typed error"] += 1
        else:
            self.bad(f"a malformed request got {answer.status_code}: {answer.text[:200]}")

    async def abandoned(self, client: httpx.AsyncClient, random_: random.Random) -> None:
        body = self.body(random_, stream=True, max_tokens=400, structured_outputs={"regex": "[a-z ]{300,}"})
        async with client.stream("POST", "/chat/completions", json=body) as answer:
            if answer.status_code != 200:
                self.refused(json.loads(await answer.aread()))
                return
            lines = answer.aiter_lines()
            for _ in range(random_.randrange(1, 8)):
                await anext(lines)
        self.outcomes["abandoned"] += 1

    async def run_request(self, client: httpx.AsyncClient, i: int, random_: random.Random) -> None:
        schema = random_.choice([*SCHEMAS, None])
        if schema is not None and random_.random() < 0.3:  # a new one
            schema = {**schema, "title": f"request {i}"}
        more: dict[str, Any] = {"stream": random_.random() < 0.4}
        if schema is not None:
            form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
            more["response_format"] = form
        began = time.perf_counter()
        if more["stream"]:
            more["stream_options"] = {"include_usage": True}
            text, tokens = await self.streamed(client, self.body(random_, **more), began)
        else:
            answer = await client.post("/chat/completions", json=self.body(random_, **more))
            if answer.status_code != 200:
                self.refused(answer.json())
                return
            reply = answer.json()
            text = reply["choices"][0]["message"]["content"]
            tokens = reply["usage"]["completion_tokens"]
        if text is None:
            return
        kind, seconds = "free" if schema is None else "constrained", time.perf_counter() - began
        self.seconds[kind].append(seconds)
        self.seconds[f"{kind}, per token"].append(seconds / max(1, tokens))
        try:
            if schema is not None:
                Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER).validate(
                    json.loads(text)
                )
        except Exception as error:
            self.bad(f"invalid: {text[:100]!r}: {str(error)[:100]}")
            return
        self.outcomes["valid"] += 1

    async def streamed(
        self, client: httpx.AsyncClient, body: dict[str, Any], began: float
    ) -> tuple[str | None, int]:
        text, ended, first, tokens = "", False, True, 0
        async with client.stream("POST", "/chat/completions", json=body) as answer:
            async for line in answer.aiter_lines():
                if line == "data: [DONE]":
                    ended = True
                elif line:
                    if first:
                        self.seconds["first chunk"].append(time.perf_counter() - began)
                        first = False
                    chunk = json.loads(line.removeprefix("data: "))
                    if "error" in chunk:
                        self.refused(chunk)
                        return None, 0
                    if chunk["usage"] is not None:
                        tokens = chunk["usage"]["completion_tokens"]
                        continue
                    text += chunk["choices"][0]["delta"].get("content") or ""
        if not ended:
            self.bad("a stream without an end")
            return None, 0
        return text, tokens

    def refused(self, answer: dict[str, Any]) -> None:
        """A good request that got an error: only one that says that the server is busy may be."""
        code = answer["error"]["code"]
        if code in ("queue_full", "compile_queue_full", "compile_timeout"):
            self.outcomes[f"busy: {code}"] += 1
        else:
            self.bad(f"a good request got {answer}"[:300])

    def bad(self, what: str) -> None:
        self.outcomes["wrong"] += 1
        self.wrong.append(what)

    def report(self, seconds: float) -> str:
        lines = [
            f"{sum(self.outcomes.values())} of {self.options.requests} requests in {seconds:.0f} s: {dict(self.outcomes)}"
        ]
        lines += [f"  wrong: {what}" for what in self.wrong[:20]]
        for name, values in self.seconds.items():
            if len(values) > 1:
                cuts = statistics.quantiles(values, n=100, method="inclusive")
                lines.append(
                    f"{name}: {len(values)}, p50 {cuts[49]:.4f} s, p90 {cuts[89]:.4f} s, p99 {cuts[98]:.4f} s"
                )
        shown = [f"{bytes_ >> 20}" for bytes_ in self.memory]
        lines.append(f"resident MiB in each tenth, at least: {', '.join(shown)}")
        return "\n".join(lines)

    def grew(self) -> float:
        """MiB by which the memory of the second half is above that at its start, on average over its last three."""
        later = self.memory[len(self.memory) // 2 :]
        return (statistics.fmean(later[-3:]) - later[0]) / 2**20


FLAT = 16.0
"""MiB by which memory may be more at the end of the second half of a soak than at its start."""


def resident(process: int) -> int:
    """Resident bytes of a process."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def processor(process: int) -> float:
    """Processor seconds of a process so far, all threads together."""
    times = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")


def written(url: str) -> int:
    """Tokens that the server has written."""
    page = httpx.get(url.replace("/v1", "/metrics")).text
    return int(float(page.partition("\nconstrained_generated_tokens_total{")[2].split()[1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--speculation", default="off")
    options = parser.parse_args()
    command = [sys.executable, "-m", "constrained.cli", "serve", "--port", "0", "--max-batch", "32"]
    command += ["--speculation", options.speculation]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            process.stderr.readline()  # what is loaded
            line = process.stderr.readline()
            if not line.startswith("serving"):
                raise SystemExit(line + process.stderr.read())
            url = line.split()[-1]
            soak = Soak(url, process.pid, options)
            began, spent = time.perf_counter(), processor(process.pid)
            asyncio.run(soak.run())
            print(soak.report(time.perf_counter() - began))
            spent = processor(process.pid) - spent
            tokens = written(url)
            print(
                f"{tokens} tokens in {spent:.1f} s of the server's processor time: {tokens / spent:.0f} a second"
            )
            health = httpx.get(url.replace("/v1", "/health")).json()
            print(f"afterwards: {health}, {resident(process.pid) >> 20} MiB")
        finally:
            process.terminate()
            print(f"the server ended with {process.wait(60)}")
    lost = options.requests - sum(soak.outcomes.values())
    if soak.outcomes["wrong"] or lost or health["running"] or health["waiting"]:
        raise SystemExit(f"{soak.outcomes['wrong']} wrong, {lost} lost")
    if soak.grew() > FLAT:
        raise SystemExit(
            f"memory grew by {soak.grew():.0f} MiB in the second half; at most {FLAT:.0f} are expected"
        )


if __name__ == "__main__":
    main()
