"""The public API as text, one line for each name and signature, read from the source by griffe.

    python -m tests.tools.public_api            print it
    python -m tests.tools.public_api --write    write tests/public_api.txt

A change of the API is a change of that file, which a reviewer sees.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import griffe

ROOT = Path(__file__).parents[2]
DUMP = ROOT / "tests" / "public_api.txt"
MODULES = ("constrained", "constrained.sampling", "constrained.testing")
"""Modules whose ``__all__`` is public; what they export from elsewhere counts as theirs."""


def _parameters(function: griffe.Function) -> str:
    parts = []
    star = False
    for parameter in function.parameters:
        if parameter.kind is griffe.ParameterKind.keyword_only and not star:
            parts.append("*")
            star = True
        star = star or parameter.kind is griffe.ParameterKind.var_positional
        prefix = {
            griffe.ParameterKind.var_positional: "*",
            griffe.ParameterKind.var_keyword: "**",
        }.get(parameter.kind or griffe.ParameterKind.positional_or_keyword, "")
        text = f"{prefix}{parameter.name}"
        if parameter.annotation is not None:
            text += f": {parameter.annotation}"
        if parameter.default is not None and not prefix:
            text += f" = {parameter.default}"
        parts.append(text)
    return ", ".join(parts)


def _lines(path: str, thing: griffe.Object) -> Iterator[str]:
    if isinstance(thing, griffe.Function):
        yield f"{path}({_parameters(thing)}) -> {thing.returns}"
    elif isinstance(thing, griffe.Class):
        bases = ", ".join(str(base) for base in thing.bases)
        yield f"class {path}({bases})"
        for name, member in sorted(thing.all_members.items()):
            if member.is_alias and member.target_path.split(".")[0] != "constrained":
                continue
            if not name.startswith("_") or name in ("__init__", "__call__"):
                target = member.final_target if isinstance(member, griffe.Alias) else member
                yield from _lines(f"{path}.{name}", target)
    elif isinstance(thing, griffe.Attribute):
        yield f"{path}: {thing.annotation}"
    elif isinstance(thing, griffe.TypeAlias):
        yield f"{path} = {thing.value}"


def dump() -> str:
    """The whole API."""
    loader = griffe.GriffeLoader(search_paths=[ROOT], allow_inspection=False)
    loader.load("constrained")
    loader.resolve_aliases(external=False)
    lines: list[str] = []
    for name in MODULES:
        module = loader.modules_collection[name]
        for public in sorted(_exports(module)):
            member = _home(loader, module, public)
            lines += _lines(f"{name}.{public}", member)
    return "\n".join(lines) + "\n"


def _exports(module: griffe.Object) -> list[str]:
    """The names of ``__all__``, which lazy modules make of the table ``_HOMES``."""
    table = _homes(module)
    return list(table) if table else [str(name) for name in module.exports or ()]


def _homes(module: griffe.Object) -> dict[str, str]:
    if "_HOMES" not in module.members:
        return {}
    value = module.members["_HOMES"].value
    assert isinstance(value, griffe.ExprDict)
    return {
        str(key).strip("'\""): f"{module.path}.{str(home).strip(chr(39) + chr(34))}"
        for key, home in zip(value.keys, value.values, strict=True)
    }


def _home(loader: griffe.GriffeLoader, module: griffe.Object, name: str) -> griffe.Object:
    home = _homes(module).get(name)
    found = (loader.modules_collection[home] if home else module)[name]
    return found.final_target if isinstance(found, griffe.Alias) else found


if __name__ == "__main__":
    if "--write" in sys.argv:
        DUMP.write_text(dump(), encoding="utf-8")
    else:
        sys.stdout.write(dump())
