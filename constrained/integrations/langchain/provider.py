"""`ChatConstrained` by name, for `langchain.chat_models.init_chat_model`."""

from __future__ import annotations

import importlib
from typing import Any

from constrained.errors import InvalidArgument


def register_provider() -> None:
    """Makes ``init_chat_model("constrained:NAME")`` return `ChatConstrained(model=NAME)`.

    LangChain has a table of its providers and no way to add one, so this adds to the table.

    Raises:
        InvalidArgument: this version of LangChain has no such table; nothing was changed.
        ImportError: langchain is not installed.
    """
    base = importlib.import_module("langchain.chat_models.base")
    table: Any = getattr(base, "_BUILTIN_PROVIDERS", None)
    entry = next(iter(table.values()), None) if isinstance(table, dict) else None
    if not (isinstance(entry, tuple) and len(entry) == 3 and callable(entry[2])):
        raise InvalidArgument(
            "this version of langchain has another table of providers",
            action="make ChatConstrained(model=...) and pass it where a model is expected",
        )
    table["constrained"] = ("constrained.integrations.langchain", "ChatConstrained", _make)


def _make(cls: Any, **settings: Any) -> Any:
    return cls(**settings)
