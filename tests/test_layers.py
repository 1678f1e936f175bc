"""The arrows of the architecture point one way, and `import constrained` stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from importlib.util import find_spec
from pathlib import Path

import pytest

LAYERS: dict[str, tuple[set[str], ...]] = {
    "constrained": (
        {"grammars", "spec"},
        {"errors", "extras", "lru_cache", "native_modules", "_core"},
        {"options"},
        {"predicates", "prompting", "vocabulary"},
        {"constraint"},
        {"automaton"},
        {"models", "sampling", "sandbox"},
        {"decoding"},
        {"chat", "decisions"},
        {"extraction"},
        {"api"},
        {"testing"},
        {"server", "integrations"},
        {"cli"},
        {"__main__"},
    ),
    "constrained.bench": (
        {"harness"},
        {"masks"},
        {"fidelity", "hostile", "jsonschemabench", "speed"},
        {"device", "replay", "values"},
        {"decisions", "prior", "quality"},
        {"commands"},
    ),
    "constrained.grammars": (
        {"errors", "garbage", "json_pointer", "_core"},
        {"ir"},
        {"counted"},
        {"lexer", "visit", "content", "packed", "work"},
        {"regex"},
        {"transform"},
        {"text"},
        {"json_schema", "types"},
        {"notation"},
    ),
    "constrained.grammars.json_schema": (
        {"text"},
        {"options", "source"},
        {"resolve", "view"},
        {"emit"},
        {"parameters"},
        {"lower"},
    ),
}
"""Rooms of a package, lowest first: a room imports rooms of lower layers, and no neighbour."""
HEAVY = ("torch", "transformers", "tokenizers", "pydantic", "jsonschema", "lark", "triton")


def folder(package: str) -> Path:
    spec = find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def modules(package: str) -> Iterator[tuple[str, Path]]:
    """(dotted name, file) of every Python module of a package."""
    root = folder(package)
    for path in sorted(root.rglob("*.py")):
        parts = [package, *path.relative_to(root).with_suffix("").parts]
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """The imports and classes of a module, anywhere in its text."""
    wanted = (ast.Import, ast.ImportFrom, ast.ClassDef)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return tuple(node for node in ast.walk(tree) if isinstance(node, wanted))


def imports(path: Path, name: str) -> set[str]:
    """Dotted names that a module imports anywhere in its text; ``from a import b`` counts as ``a.b``."""
    found: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            package = name if path.name == "__init__.py" else name.rpartition(".")[0]
            base = package.rsplit(".", node.level - 1)[0] if node.level else ""
            origin = ".".join(part for part in (base, node.module) if part)
            found |= {f"{origin}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("package", ["constrained.grammars", "constrained.spec"])
def test_the_lower_packages_know_nothing_of_their_users(package: str) -> None:
    for name, path in modules(package):
        ours = {target for target in imports(path, name) if target.split(".")[0] == "constrained"}
        assert all(target.startswith(f"{package}.") for target in ours), name


@pytest.mark.parametrize("package", LAYERS)
def test_rooms_import_only_rooms_below(package: str) -> None:
    level = {room: number for number, rooms in enumerate(LAYERS[package]) for room in rooms}
    depth = package.count(".") + 1
    wrong = []
    for name, path in modules(package):
        if name == package:
            continue  # the facade: names of every room
        room = name.split(".")[depth]
        assert room in level, f"{name} has no layer yet: say in this test where it belongs"
        for target in imports(path, name):
            parts = target.split(".")
            if not target.startswith(f"{package}.") or parts[depth] == room:
                continue
            if parts[depth] not in level or level[parts[depth]] >= level[room]:
                wrong.append(f"{name} imports {target}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("package", ["constrained", "constrained.grammars", "constrained.spec"])
def test_no_file_imports_one_that_imports_it(package: str) -> None:
    """Not for types, and not inside of a function either; the faces of the rooms left out.

    The readers of a schema's keywords are one circle: a node holds what they have read of it.
    """
    files = {
        name: path
        for name, path in modules(package)
        if path.name != "__init__.py" and ".json_schema.source." not in name
    }
    order = TopologicalSorter[str]()
    for name, path in files.items():
        for target in imports(path, name):
            imported = target if target in files else target.rpartition(".")[0]
            if imported in files and imported != name:
                order.add(name, imported)
    order.prepare()  # raises CycleError, which names the files


def test_importing_constrained_loads_nothing_heavy() -> None:
    """Not even when names are used that need no model."""
    code = (
        "import sys, constrained\n"
        "assert 'numpy' not in sys.modules\n"
        "constrained.Vocabulary, constrained.Constraint, constrained.json_schema, constrained.ConstraintError\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "[]", "")


EXAMPLES = ("constrained.cli.demo_texts", "constrained.bench.values.types")
"""Types that texts are read into, named as users name theirs."""


def test_no_class_name_stands_for_two_things() -> None:
    homes: dict[str, list[str]] = {}
    for package in ("constrained", "constrained.bench", "constrained.grammars", "constrained.spec"):
        for name, path in modules(package):
            if name in EXAMPLES:
                continue
            for node in nodes(path):
                if isinstance(node, ast.ClassDef):
                    homes.setdefault(node.name, []).append(name)
    assert not {name: found for name, found in homes.items() if len(found) > 1}
