"""What a package promises in `__all__` is there, and nothing is promised twice or forgotten."""

from __future__ import annotations

import ast
import difflib
from importlib import import_module

import pytest

from constrained.extras import MissingExtra
from tests.test_layers import modules
from tests.tools import public_api

PROMISING = [
    name
    for package in ("constrained.grammars", "constrained.spec", "constrained")
    for name, path in modules(package)
    if any(
        isinstance(node, ast.Assign) and any(ast.unparse(target) == "__all__" for target in node.targets)
        for node in ast.parse(path.read_text(encoding="utf-8")).body
    )
]
DESIGNED = [
    "load", "extract", "generate", "Generator", "compile", "Vocabulary", "TokenAutomaton", "Constraint",
    "json_schema", "regex", "choice", "ConstraintError", "UnsupportedConstraint", "InvalidConstraint",
    "UnsatisfiableConstraint", "ConstraintTooLarge",
]  # fmt: skip


@pytest.mark.parametrize("name", PROMISING)
def test_every_public_name_exists(name: str) -> None:
    try:
        module = import_module(name)
    except MissingExtra as missing:
        pytest.skip(str(missing))
    assert len(set(module.__all__)) == len(module.__all__)
    absent = [public for public in module.__all__ if not hasattr(module, public)]
    assert not absent
    assert set(module.__all__) <= set(dir(module))


def test_the_designed_names_are_public() -> None:
    import constrained

    assert set(DESIGNED) <= set(constrained.__all__)


def test_type_checkers_see_the_names_that_are_loaded_lazily() -> None:
    """The imports under ``TYPE_CHECKING`` and the table of lazy names say the same."""
    import constrained

    source = dict(modules("constrained"))["constrained"].read_text(encoding="utf-8")
    seen = {
        alias.asname: node.module
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("constrained.")
        for alias in node.names
        if alias.asname is not None  # those without are of functions
    }
    assert seen == {name: f"constrained.{home}" for name, home in constrained._HOMES.items()}


def test_an_unknown_name_is_an_attribute_error() -> None:
    import constrained

    with pytest.raises(AttributeError, match="no_such_name"):
        constrained.no_such_name  # noqa: B018


def test_the_public_api_is_the_one_that_is_checked_in() -> None:
    """A change of a public name or signature shows in the diff of tests/public_api.txt; `make api` writes it."""
    kept = public_api.DUMP.read_text(encoding="utf-8").splitlines()
    changes = "\n".join(difflib.unified_diff(kept, public_api.dump().splitlines(), lineterm="", n=0))
    assert not changes, f"run `make api`:\n{changes}"
