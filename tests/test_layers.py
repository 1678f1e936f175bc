"""The arrows of the architecture point one way, and `import constrained` stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

LAYERS = (
    {"errors", "_core"},
    {"json_text", "predicates", "prompt", "states", "vocabulary"},
    {"constraint"},
    {"guarded"},
    {"automaton"},
    {"models", "sampling", "rows"},
    {"decoding"},
    {"api"},
    {"testing"},
    {"integrations"},
    {"evaluate"},
    {"cli", "__main__"},
)
"""Rooms of `constrained`, lowest first: a room imports rooms of lower layers, and no neighbour."""
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}
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


def imports(path: Path, name: str) -> set[str]:
    """Dotted names that a module imports anywhere in its text; ``from a import b`` counts as ``a.b``."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            package = name if path.name == "__init__.py" else name.rpartition(".")[0]
            base = package.rsplit(".", node.level - 1)[0] if node.level else ""
            origin = ".".join(part for part in (base, node.module) if part)
            found |= {f"{origin}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize(
    ("package", "others"), [("grammars", {"constrained", "spec"}), ("spec", {"constrained", "grammars"})]
)
def test_the_lower_packages_know_nothing_of_their_users(package: str, others: set[str]) -> None:
    for name, path in modules(package):
        assert not {target.split(".")[0] for target in imports(path, name)} & others, name


def test_rooms_import_only_rooms_below() -> None:
    wrong = []
    for name, path in modules("constrained"):
        if name == "constrained":
            continue  # the facade: names of every room, each loaded when it is first used
        room = name.split(".")[1]
        assert room in LEVEL, f"{room} has no layer yet: say in this test where it belongs"
        for target in imports(path, name):
            parts = target.split(".")
            if parts[0] != "constrained" or len(parts) == 1 or parts[1] == room:
                continue
            if parts[1] not in LEVEL or LEVEL[parts[1]] >= LEVEL[room]:
                wrong.append(f"{name} imports {target}")
    assert not wrong, "\n".join(wrong)


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
