"""Runs hostile cases where they can do no harm: each in a process of its own, with limits on memory and time.

Names arrive on the standard input, for each a line of JSON is written; `constrained bench hostile` measures time and memory. A case is compiled and then walked: a text that it accepts, one that it refuses, and 60 random tokens out of the
masks, every answer checked against every other.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

MEMORY = 1 << 30
"""Bytes of address space that a case may take, besides what the interpreter has."""
HANG = 120
"""Seconds after which a case counts as hung: generous, because nothing here is about speed."""
STEPS = 60
PROBES = 24


class Outcome(NamedTuple):
    """What became of a case.

    Attributes:
        verdict: ``"walked"``, the name of the error that refused it, or what went wrong.
        detail: of what went wrong, or the message of the error.
    """

    verdict: str
    detail: str = ""


class Runner:
    """A process that runs cases by name, each in a child of its own."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, name: str) -> Outcome:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(name, file=self._process.stdin, flush=True)
        return Outcome(**json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        self._process.communicate()


# ---------------------------------------------------------------- one case, in its own process


def run_case(name: str) -> Outcome:
    """Forks, compiles and walks the case, and tells how it ended."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        signal.alarm(HANG)
        try:
            outcome = _compile_and_walk(name)
        except BaseException as error:
            outcome = Outcome(f"raised {type(error).__name__}", _where(error))
        with os.fdopen(write, "w") as pipe:
            json.dump(outcome._asdict(), pipe)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return Outcome("hung" if number == signal.SIGALRM else f"crashed by {signal.Signals(number).name}")
    return Outcome(**json.loads(text))


def _where(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}: " if trace is not None else ""
    return (place + str(error))[:500]


def _compile_and_walk(name: str) -> Outcome:
    from constrained.automaton import compile
    from constrained.bench.hostile.cases import CASES
    from constrained.errors import ConstraintError, ConstraintTooLarge

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * os.sysconf("SC_PAGESIZE") + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    case = CASES[name]
    try:
        automaton = compile(case.constraint(), case.vocabulary())
    except (ConstraintError, ConstraintTooLarge) as error:
        return Outcome(type(error).__name__, str(error)[:500])
    for text in case.accepted:
        assert _reads(automaton, text), f"refuses {text[:60]!r}"
    for text in case.rejected:
        assert not _reads(automaton, text), f"accepts {text[:60]!r}"
    _random_walk(automaton, random.Random(name))
    return Outcome("walked")


def _reads(automaton: Any, text: bytes) -> bool:
    state = automaton.start
    for token in automaton.vocabulary.encode(text):
        state = automaton.next(state, token)
        if state == 0:
            return False
    return bool(automaton.accepts(state))


def _random_walk(automaton: Any, draw: random.Random) -> None:
    """Follows the masks; every live state must have a way on, and the shortest way must reach the end."""
    from constrained.automaton.bitmask import unpack_ids

    vocabulary, row = automaton.vocabulary, automaton.new_mask()
    ends, state = set(vocabulary.eos_ids), automaton.start

    def masked(at: int, budget: int | None = None) -> list[int]:
        if budget is None:
            automaton.fill_mask(at, row)
        else:
            automaton.fill_mask_within(at, row, budget)
        return list(unpack_ids(row).tolist())

    for _ in range(STEPS):
        allowed = masked(state)
        assert allowed, "no token is allowed"
        assert automaton.accepts(state) == bool(ends.intersection(allowed))
        left = automaton.shortest_completion(state)
        assert (left == 0) == automaton.accepts(state)
        forced = automaton.forced(state)
        texts = [token for token in allowed if token not in ends]
        for token in draw.sample(texts, min(PROBES, len(texts))):
            assert automaton.next(state, token) != 0, vocabulary.tokens[token]
            known = vocabulary.tokens[token]
            assert known.startswith(forced[: len(known)]) or forced.startswith(known)
        refused = sorted(set(range(vocabulary.size)).difference(allowed))
        for token in draw.sample(refused, min(PROBES, len(refused))):
            assert automaton.next(state, token) == 0, vocabulary.tokens[token]
        if not texts:
            break
        state = automaton.next(state, draw.choice(texts))
    left = automaton.shortest_completion(state)
    while 0 < left <= 300:
        token = min(
            masked(state, left + 1), key=lambda t: automaton.shortest_completion(automaton.next(state, t))
        )
        state = automaton.next(state, token)
        assert automaton.shortest_completion(state) < left, "no token leads towards the end"
        left = automaton.shortest_completion(state)


# ---------------------------------------------------------------- several


def warm_up() -> None:
    """Loads what every case needs, before there are limits."""
    from constrained.automaton import compile
    from constrained.bench.hostile.case import words
    from constrained.constraint import gbnf, json_schema

    automaton = compile(json_schema({"type": "object", "properties": {"a": {"pattern": "^a"}}}), words())
    automaton.fill_mask(automaton.start, automaton.new_mask())
    compile(gbnf('root ::= "a"'), words())


def main() -> None:
    sys.path.insert(0, str(Path(__file__).parents[2]))
    warm_up()
    for line in sys.stdin:
        print(json.dumps(run_case(line.strip())._asdict()), flush=True)


if __name__ == "__main__":
    main()
