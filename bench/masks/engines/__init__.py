"""The engines that can be measured: a table from name to adapter.

An adapter is imported only in the process that runs it. To measure another engine, write a class with the methods
of `base.Engine` and name it ``module:Class`` where a name of the table is expected.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from constrained.errors import InvalidArgument

if TYPE_CHECKING:
    from constrained.bench.masks.engines.base import Engine

_HERE = __name__

ENGINES = {
    "constrained": f"{_HERE}.ours:ConstrainedEngine",
    "constrained-any": f"{_HERE}.ours:ConstrainedAnyWhitespace",
    "constrained-any-order": f"{_HERE}.ours:ConstrainedAnyOrder",
    "llguidance": f"{_HERE}.llguidance:LLGuidance",
    "llguidance-unforced": f"{_HERE}.llguidance:LLGuidanceUnforced",
    "glrmask": f"{_HERE}.glrmask:GLRMask",
    "xgrammar": f"{_HERE}.xgrammar:XGrammar",
    "outlines": f"{_HERE}.outlines:Outlines",
    "unconstrained": f"{_HERE}.unconstrained:Unconstrained",
}
"""Name to ``module:Class``. The variants are for comparing masks: any white space, members in any order, no mask narrowed to one token. ``unconstrained`` allows everything."""

DEFAULT_ENGINES = ("constrained", "llguidance", "glrmask", "xgrammar", "outlines")
"""The engines that are measured by default."""


def check_engine(name: str) -> str:
    """The name itself, if there is such an engine; nothing is imported.

    Raises:
        InvalidArgument: it is neither in the table nor ``module:Class``.
    """
    if name not in ENGINES and not all(name.partition(":")):
        raise InvalidArgument(
            f"there is no engine {name!r}", action=f"name one of {', '.join(ENGINES)}, or MODULE:CLASS"
        )
    return name


def load_engine(name: str) -> type[Engine]:
    """The class of an engine, imported.

    Raises:
        InvalidArgument: there is no such engine.
        ImportError: its package is not installed.
    """
    module, _, attribute = ENGINES.get(check_engine(name), name).partition(":")
    found: type[Engine] = getattr(import_module(module), attribute)
    return found
