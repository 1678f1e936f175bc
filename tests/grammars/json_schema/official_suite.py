"""The official test suite of JSON Schema, judged by the automaton: what each case comes to.

    python tests/grammars/json_schema/official_suite.py [--wrong] [--update]

prints how many cases of each draft agree, are refused, are narrower or wrong; `--wrong` names the last two, `--update` writes the
ratchet that `test_official_suite.py` compares with. The suite lies in `CONSTRAINED_DATA`.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import tarfile
from collections import Counter
from collections.abc import Iterator
from itertools import islice, permutations, product
from pathlib import Path
from typing import Any, NamedTuple

from constrained.automaton import DEAD, Automaton, compile_grammar
from constrained.grammars.errors import ConstraintError, ConstraintTooLarge, UnsatisfiableConstraint
from constrained.grammars.json_schema import SchemaOptions, lower_schema
from constrained.vocabulary import Vocabulary

RATCHET = Path(__file__).with_name("official_suite.json")
DRAFTS = {"4": "draft4", "6": "draft6", "7": "draft7", "2019-09": "draft2019-09", "2020-12": "draft2020-12"}
LEFT_OUT = {
    "format": "says that formats are annotations; here they are enforced, which optional/format judges",
}
"""Files that are not judged, with the reason."""
MOST_TEXTS = 5_000
EOS = 256
VOCABULARY = Vocabulary.from_bytes([*(bytes([byte]) for byte in range(256)), b""], eos_ids=[EOS])

AGREES, REFUSED, NARROWER, WRONG = "arnw"
"""All tests as the suite says; an error; a valid text is left out; an invalid one passes."""


class Case(NamedTuple):
    """A schema of the suite with its instances."""

    draft: str
    file: str
    schema: Any
    description: str
    tests: list[dict[str, Any]]


def archive() -> Path | None:
    """Where the suite lies, if it is there."""
    folder = os.environ.get("CONSTRAINED_DATA")
    path = Path(folder or "") / "json-schema-test-suite.tar.gz"
    return path if folder and path.exists() else None


def suite(path: Path) -> Iterator[Case]:
    """Every case that is judged, draft by draft, in the order of the files' names."""
    with tarfile.open(path) as files:
        members = {member.name: member for member in files.getmembers() if member.isfile()}
        for draft, folder in DRAFTS.items():
            for name in sorted(members):
                if not name.startswith(f"tests/{folder}/") or not name.endswith(".json"):
                    continue
                file = name.removeprefix(f"tests/{folder}/").removesuffix(".json")
                if file in LEFT_OUT:
                    continue
                found = files.extractfile(members[name])
                assert found is not None
                for case in json.load(found):
                    yield Case(draft, file, case["schema"], case["description"], case["tests"])


@functools.cache
def remotes(path: Path) -> dict[str, Any]:
    """The documents that the suite expects at a server of its own, by URI."""
    with tarfile.open(path) as files:
        found = {}
        for member in files.getmembers():
            if member.isfile() and member.name.startswith("remotes/") and member.name.endswith(".json"):
                text = files.extractfile(member)
                assert text is not None
                found["http://localhost:1234/" + member.name.removeprefix("remotes/")] = json.load(text)
        return found


def orders(value: Any, whole: bool) -> Iterator[Any]:
    """A value with its members in every order; if `whole`, 1.0 also as 1."""
    if isinstance(value, list):
        yield from map(list, product(*(list(islice(orders(item, whole), MOST_TEXTS)) for item in value)))
    elif isinstance(value, dict):
        inner = {name: list(islice(orders(item, whole), MOST_TEXTS)) for name, item in value.items()}
        for names in permutations(value):
            for items in product(*(inner[name] for name in names)):
                yield dict(zip(names, items, strict=True))
    else:
        yield value
        if whole and isinstance(value, float) and value.is_integer() and abs(value) < 1 << 63:
            yield int(value)


def accepts(automaton: Automaton, instance: Any, whole: bool) -> bool:
    """Whether some text of an instance is one of the automaton's."""
    for ordered in islice(orders(instance, whole), MOST_TEXTS):
        text = json.dumps(ordered).encode()
        states = automaton.walk(automaton.start, list(text))
        if len(states) == len(text) and automaton.next(states[-1], EOS) != DEAD:
            return True
    return False


def verdict(case: Case, registry: dict[str, Any]) -> tuple[str, str]:
    """What a case comes to, and why it does not agree."""
    try:
        says = isinstance(case.schema, dict) and "$schema" in case.schema
        lowered = lower_schema(
            case.schema, SchemaOptions(draft=None if says else case.draft, registry=registry)
        )
        automaton = compile_grammar(lowered.grammar, VOCABULARY)
    except UnsatisfiableConstraint as error:
        valid = [test["description"] for test in case.tests if test["valid"]]
        return (NARROWER, f"{valid[0]}: {error}") if valid else (AGREES, "")
    except (ConstraintError, ConstraintTooLarge) as error:
        return REFUSED, str(error.problems[0] if error.problems else error)
    left_out = ""
    for test in case.tests:
        if accepts(automaton, test["data"], case.draft != "4" or test["valid"]) == test["valid"]:
            continue
        if not test["valid"]:
            return WRONG, f"{test['description']}: accepted"
        left_out = left_out or f"{test['description']}: left out"
    return (NARROWER, left_out) if left_out else (AGREES, "")


def judge(path: Path) -> tuple[dict[str, dict[str, str]], list[tuple[Case, str, str]]]:
    """A letter for each case, by draft and file; and the cases that do not agree, with the letter and the reason."""
    letters: dict[str, dict[str, str]] = {}
    others = []
    for case in suite(path):
        letter, reason = verdict(case, remotes(path))
        files = letters.setdefault(case.draft, {})
        files[case.file] = files.get(case.file, "") + letter
        if letter != AGREES:
            others.append((case, letter, reason))
    return letters, others


def main() -> None:
    """Prints the counts; see the module's docstring."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--update", action="store_true")
    arguments.add_argument("--wrong", action="store_true")
    arguments.add_argument("--refused", action="store_true")
    options = arguments.parse_args()
    path = archive()
    if path is None:
        raise SystemExit("set CONSTRAINED_DATA to the folder that holds json-schema-test-suite.tar.gz")
    letters, others = judge(path)
    for draft, files in letters.items():
        for title, optional in (("required", False), ("optional", True)):
            part = "".join(text for file, text in files.items() if file.startswith("optional/") == optional)
            count = Counter(part)
            print(
                f"draft {draft:8} {title}: {len(part):4} cases, {count[AGREES]:4} agree,"
                f" {count[REFUSED]:3} refused, {count[NARROWER]:3} narrower, {count[WRONG]:3} wrong"
            )
    for case, letter, reason in others:
        if (letter in (NARROWER, WRONG) and options.wrong) or (letter == REFUSED and options.refused):
            print(f"{letter} {case.draft} {case.file}: {case.description}: {reason.splitlines()[0][:200]}")
    if options.update:
        RATCHET.write_text(json.dumps(letters, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
