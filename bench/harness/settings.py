"""Settings of benches: the data that is read by default, checks of names, what rows depend on; and how a bench reports progress."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from constrained.errors import InvalidArgument
from constrained.options import option

DATA_VARIABLE = "CONSTRAINED_DATA"
SCHEMAS_FILE, VALUES_FILE = "maskbench-dev.jsonl.gz", "values-dev.jsonl.gz"
"""Files in the folder of the variable: recorded values of schemas, and public texts with known answers."""

SCHEMAS_HELP = f"MaskBench data, .jsonl or .jsonl.gz [default: ${DATA_VARIABLE}/{SCHEMAS_FILE}]."
VALUES_HELP = f"Public rows, .jsonl or .jsonl.gz [default: ${DATA_VARIABLE}/{VALUES_FILE}]."
VOCABULARY_HELP = "tekken (131,072 tokens, with mistral-common), or a Hugging Face tokenizer."

Progress = Callable[[str, int, int], None]
"""Called with the present step, how many parts of it are done, and how many there are (0: unknown)."""


def no_progress(step: str, done: int, total: int) -> None:
    """Shows no progress."""


def names(default: tuple[str, ...], help: str, *, between: str = ",", **more: Any) -> Any:
    """An option of several names, which stand in one text of the command line."""
    return option(default, help, between=between, metavar=between.join("ABC"), **more)


def counts(default: tuple[int, ...], help: str) -> Any:
    """An option of several positive numbers, likewise."""
    return option(default, help, least=1, between=",", metavar="N,N,N")


def data_file(named: Path | None, default: str = SCHEMAS_FILE) -> Path:
    """The named file, or the default one in the folder of the environment variable.

    Raises:
        InvalidArgument: neither is set.
    """
    if named is not None:
        return named
    folder = os.environ.get(DATA_VARIABLE)
    if not folder:
        raise InvalidArgument(
            "no data is named",
            action=f"pass --data FILE, or set {DATA_VARIABLE} to the folder of {default}",
        )
    return Path(folder) / default


def measured(settings: Any, *others: str) -> dict[str, Any]:
    """The settings that rows depend on, paths by their names; the `others` may change when a run is resumed."""
    return {
        name: value.name if isinstance(value, Path) else value
        for name, value in asdict(settings).items()
        if name not in others
    }


def check_distinct(names: Collection[str], what: str) -> None:
    """Checks that there are names, and that they are distinct.

    Raises:
        InvalidArgument: there is no name, or one is there twice.
    """
    if not names or len(set(names)) != len(names):
        raise InvalidArgument(f"no {what} is named, or one is named twice", action=f"name each {what} once")


def check_names(names: Iterable[str], known: Collection[str]) -> None:
    """Checks names of what is to be measured.

    Raises:
        InvalidArgument: a name is not known.
    """
    unknown = set(names) - set(known)
    if unknown:
        raise InvalidArgument(
            f"{min(unknown)!r} is not measured here", action=f"name some of: {'; '.join(known)}"
        )
