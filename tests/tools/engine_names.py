"""Names and signatures that the plug-ins use of vLLM and SGLang, read out of released wheels and recorded.

`python -m tests.tools.engine_names *.whl` rewrites `tests/cases/engine_names.json`. Nothing of an engine is run or imported, so
the record has releases that no machine at hand can run, and `tests/integrations/test_engine_names.py` needs no network.
"""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from constrained.integrations.sglang import names as sglang
from constrained.integrations.vllm import patch as vllm
from tests.support.paths import ROOT

PATH = ROOT / "tests" / "cases" / "engine_names.json"
PLACES: dict[str, tuple[str, ...]] = {"vllm": vllm.PLACES, "sglang": sglang.PLACES}


class Wheel:
    """The modules of a wheel as syntax trees."""

    def __init__(self, path: Path) -> None:
        self._files = ZipFile(path)
        self._trees: dict[str, ast.Module | None] = {}

    def describe(self, place: str) -> dict[str, list[str]] | None:
        """What is at ``module:name.name``: parameters of a function, fields and abstract methods of a class; None if nothing is."""
        module, _, path = place.partition(":")
        names = path.split(".")
        node: Any = self._in_module(module, names[0])
        for name in names[1:]:
            node = self._in_class(*node, name) if node else None
        if node is None:
            return None
        where, found = node
        if isinstance(found, ast.FunctionDef):
            arguments = found.args
            own = any(ast.unparse(mark) == "classmethod" for mark in found.decorator_list)
            return {"parameters": [one.arg for one in (*arguments.posonlyargs, *arguments.args)][own:]}
        if not isinstance(found, ast.ClassDef):
            return {}
        fields = [
            one.target.id
            for one in found.body
            if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
        ]
        methods = [one for one in found.body if isinstance(one, ast.FunctionDef)]
        init = self._in_class(where, found, "__init__")
        return {
            "parameters": fields if init is None else [one.arg for one in init[1].args.args[1:]],
            "fields": fields,
            "abstract": [
                one.name
                for one in methods
                if any(ast.unparse(mark).endswith("abstractmethod") for mark in one.decorator_list)
            ],
        }

    def _tree(self, module: str) -> ast.Module | None:
        if module not in self._trees:
            stem = module.replace(".", "/")
            known = [name for name in (f"{stem}.py", f"{stem}/__init__.py") if name in self._files.namelist()]
            self._trees[module] = ast.parse(self._files.read(known[0])) if known else None
        return self._trees[module]

    def _in_module(self, module: str, name: str) -> tuple[str, Any] | None:
        """The definition of a name, in whatever module it is imported from."""
        tree = self._tree(module)
        for node in ast.walk(tree) if tree is not None else ():
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
                return module, node
            if isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                    return module, node
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        return self._in_module(node.module, alias.name)
        return None

    def _in_class(self, module: str, owner: Any, name: str) -> tuple[str, Any] | None:
        """An attribute of a class, or of one that it derives from."""
        for node in owner.body:
            named = getattr(node, "name", None) == name
            targets = getattr(node, "targets", [getattr(node, "target", None)])
            if named or any(isinstance(one, ast.Name) and one.id == name for one in targets):
                return module, node
        for base in owner.bases:
            found = self._in_module(module, ast.unparse(base))
            if found and isinstance(found[1], ast.ClassDef) and (inner := self._in_class(*found, name)):
                return inner
        return None


def record(wheels: list[Path]) -> dict[str, Any]:
    """By engine and version, what is at each place; builds of one version for other devices have the same Python."""
    table: dict[str, Any] = {}
    for path in wheels:
        engine, version = path.name.removesuffix(".whl").split("-")[:2]
        engine = engine.removesuffix("_cpu")
        wheel = Wheel(path)
        table[f"{engine} {version}"] = {place: wheel.describe(place) for place in PLACES[engine]}
    return dict(sorted(table.items()))


if __name__ == "__main__":
    releases = [
        f"{json.dumps(release)}: {{\n"
        + ",\n".join(f"  {json.dumps(place)}: {json.dumps(found)}" for place, found in places.items())
        + "\n}"
        for release, places in record([Path(name) for name in sys.argv[1:]]).items()
    ]
    PATH.write_text("{" + ",\n".join(releases) + "}\n")
