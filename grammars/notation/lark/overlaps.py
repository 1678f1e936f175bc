"""Terminals of a Lark grammar that match the same text, as Lark's strict mode finds them with interegular.

interegular determinizes without limits, in exponential time for some short patterns, so it runs in a process of its own
with limits of time and memory. Terminals that could not be compared are listed.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from constrained.grammars import ir
from constrained.grammars.regex.matching import matches

MAX_TERMINALS = 200
MAX_LENGTH = 500
"""Greatest number of characters of a pattern that is compared."""
MAX_COUNT = 50
"""Greatest count of a repetition in a pattern that is compared."""
MAX_OVERLAPS = 20
TIME_LIMIT = 5.0
"""Seconds of processor time for all pairs of a grammar."""
_WAITING = 12
"""How much longer a process may take by the clock: on a busy machine it waits for a processor."""
_MEMORY_LIMIT = 1 << 30  # bytes
_MAX_EXAMPLES = 20
_COUNT = re.compile(r"\{(\d*)(?:,(\d*))?\}")
_PROGRAM = "from constrained.grammars.notation.lark.overlaps import compare; compare()"


@dataclass(frozen=True, slots=True)
class ComparedTerminal:
    """A terminal that is a regular expression.

    Attributes:
        name: its name, or the literal as it is written.
        pattern: its regular expression, with its flags; None: no regular expression writes it.
        regex: its texts.
        priority: of the lexer; only terminals of equal priority are compared.
    """

    name: str
    pattern: str | None
    regex: ir.Regex
    priority: int


@dataclass(frozen=True, slots=True)
class TerminalOverlap:
    """Two terminals of equal priority, by name, and a text that both match."""

    first: str
    second: str
    example: str


@dataclass(frozen=True, slots=True)
class OverlapReport:
    """The result of a comparison.

    Attributes:
        overlaps: at most `MAX_OVERLAPS`.
        not_compared: the reason by the name of a terminal.
    """

    overlaps: tuple[TerminalOverlap, ...] = ()
    not_compared: tuple[tuple[str, str], ...] = ()


def find_overlaps(terminals: Sequence[ComparedTerminal], *, time_limit: float = TIME_LIMIT) -> OverlapReport:
    """Compares terminals of equal priority pairwise. Cheap patterns come first.

    Args:
        terminals: regular expressions only: Lark prefers a string to a regular expression that matches it.
        time_limit: seconds of processor time for all pairs, with the start of the process that compares them.
    """
    skipped: dict[str, str] = {}
    compared: list[ComparedTerminal] = []
    for terminal in sorted(terminals, key=lambda one: (len(one.pattern or ""), one.name)):
        reason = _reason_to_skip(terminal.pattern, len(compared))
        if reason is None:
            compared.append(terminal)
        else:
            skipped[terminal.name] = reason
    overlaps: list[TerminalOverlap] = []
    if len(compared) > 1:
        pending = dict(enumerate(compared))
        for kind, index, *details in _compare_in_process(compared, time_limit):
            if kind == "overlap":
                first, second = compared[details[0]], compared[index]
                # interegular takes lazy loops for greedy ones: only a text of both languages counts.
                confirmed = (
                    text for text in details[1] if matches(first.regex, text) and matches(second.regex, text)
                )
                if (example := next(confirmed, None)) is not None:
                    overlaps.append(TerminalOverlap(first.name, second.name, example))
                else:
                    skipped[second.name] = f"no text was confirmed that {first.name} matches, too"
                continue
            pending.pop(index)
            if kind == "unreadable":
                skipped[compared[index].name] = details[0]
        if len(overlaps) >= MAX_OVERLAPS:
            reason = f"{MAX_OVERLAPS} overlaps are listed already"
        else:
            reason = f"needs more than {time_limit:g} seconds or {_MEMORY_LIMIT >> 20} MiB"
        skipped.update((terminal.name, reason) for terminal in pending.values())
    return OverlapReport(tuple(overlaps), tuple(skipped.items()))


def _reason_to_skip(pattern: str | None, compared: int) -> str | None:
    if pattern is None:
        return "it is made with & or ~, or ends early"
    if len(pattern) > MAX_LENGTH:
        return f"its pattern has more than {MAX_LENGTH} characters"
    if any(_large(bound) for match in _COUNT.finditer(pattern) for bound in match.groups()):
        return f"its pattern repeats more than {MAX_COUNT} times"
    return f"more than {MAX_TERMINALS} terminals" if compared >= MAX_TERMINALS else None


def _large(bound: str | None) -> bool:
    digits = (bound or "0").lstrip("0")
    return len(digits) > len(str(MAX_COUNT)) or int(digits or "0") > MAX_COUNT


def _compare_in_process(terminals: Sequence[ComparedTerminal], time_limit: float) -> list[list[Any]]:
    """The lines that `compare` writes before it ends, or before the time is over."""
    data = json.dumps([(terminal.pattern, terminal.priority) for terminal in terminals])
    path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path if entry)
    try:
        output = subprocess.run(
            [sys.executable, "-c", _PROGRAM, str(math.ceil(time_limit))],
            input=data.encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path},
            cwd=Path(__file__).parents[3],  # -c puts the working folder first, where a json.py may lie
            timeout=_WAITING * time_limit,
            check=False,
        ).stdout
    except subprocess.TimeoutExpired as error:
        output = error.stdout or b""
    *lines, _unfinished = output.decode().split("\n")
    return [json.loads(line) for line in lines]


# ------------------------------------------------------------ in the process


def compare() -> None:
    """Compares the patterns on standard input, a JSON array of (pattern, priority); writes a JSON array per line.

    ``["overlap", index, earlier index, texts]``, ``["unreadable", index, reason]``, and ``["compared", index]`` after a
    pattern was compared with all earlier ones.
    """
    from interegular import InvalidSyntax, Unsupported, parse_pattern

    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource  # not on Windows

        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_LIMIT, _MEMORY_LIMIT))
        resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[1]), int(sys.argv[1])))
    machines: list[tuple[int, int, Any]] = []
    overlaps = 0
    for index, (pattern, priority) in enumerate(json.load(sys.stdin)):
        try:
            parsed = parse_pattern(pattern)
            if parsed.prefix_postfix != (0, 0):
                raise Unsupported("an assertion looks beyond the text")
            machine = parsed.to_fsm()
        except MemoryError:
            return
        except (InvalidSyntax, Unsupported) as error:
            detail = f": {error}" if str(error) else ""
            _write("unreadable", index, f"interegular cannot read its pattern{detail}")
            continue
        except Exception as error:  # it fails in other ways, too: on comments, for example
            _write("unreadable", index, f"interegular cannot read its pattern: {type(error).__name__}")
            continue
        for earlier, other_priority, other in machines:
            if other_priority == priority and (texts := _common_texts(other, machine)):
                _write("overlap", index, earlier, texts)
                overlaps += 1
                if overlaps == MAX_OVERLAPS:
                    return
        machines.append((index, priority, machine))
        _write("compared", index)


def _write(*line: object) -> None:
    print(json.dumps(line), flush=True)


def _common_texts(first: Any, second: Any) -> list[str]:
    """Texts that two machines of interegular accept, found breadth first: one for each pair of accepting states.

    interegular's own search takes a machine that is back in its initial state for a dead one.
    """
    from interegular.fsm import Alphabet

    alphabet, (to_first, to_second) = Alphabet.union(first.alphabet, second.alphabet)
    letters = [
        (to_first[key], to_second[key], _letter(symbols, alphabet))
        for key, symbols in alphabet.by_transition.items()
    ]
    letters.sort(key=lambda entry: _rank(entry[2]))
    texts: list[str] = []
    start = (first.initial, second.initial)
    reached: dict[tuple[Any, Any], tuple[Any, str] | None] = {start: None}
    queue = deque([start])
    while queue and len(texts) < _MAX_EXAMPLES:
        pair = queue.popleft()
        if pair[0] in first.finals and pair[1] in second.finals:
            texts.append("".join(_letters_back(pair, reached))[::-1])
        edges, other_edges = first.map.get(pair[0], {}), second.map.get(pair[1], {})
        for key, other_key, letter in letters:
            if key in edges and other_key in other_edges:
                following = (edges[key], other_edges[other_key])
                if following not in reached:
                    reached[following] = pair, letter
                    queue.append(following)
    return texts


def _letters_back(pair: Any, reached: dict[Any, Any]) -> Iterator[str]:
    while (step := reached[pair]) is not None:
        pair, letter = step
        yield letter


def _letter(symbols: Sequence[Any], alphabet: Any) -> str:
    """The most readable character of a class; one of interegular's `anything_else` where the class has no other."""
    named = [symbol for symbol in symbols if isinstance(symbol, str)]
    if named:
        return min(named, key=_rank)
    return next(letter for letter in map(chr, range(0x21, sys.maxunicode)) if letter not in alphabet)


def _rank(letter: str) -> tuple[bool, bool, str]:
    return not ("a" <= letter <= "z"), not letter.isprintable(), letter
