"""Checks that an engine has the API that a plug-in uses, before anything is replaced or registered."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from constrained.errors import ConstrainedError, Problem


class IncompatibleEngine(ConstrainedError, ImportError):
    """This version of an engine lacks a name that the plug-in needs, or has it in another form; nothing was changed."""


class ApiCheck:
    """Looks names up as ``module:name.name``, and collects what differs.

    Attributes:
        problems: a name that is missing or has changed, each with its place.
    """

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def find(self, place: str) -> Any:
        """The object at a place; None, and a problem, if there is none."""
        module, _, path = place.partition(":")
        try:
            attribute: Any = importlib.import_module(module)
            for name in filter(None, path.split(".")):
                attribute = getattr(attribute, name)
        except (ImportError, AttributeError) as error:
            self.problems.append(Problem(place, f"does not exist: {error}"))
            return None
        return attribute

    def parameters(self, expected: Mapping[str, tuple[str, ...]]) -> None:
        """Functions must have these first parameters."""
        for place, names in expected.items():
            function = self.find(place)
            if function is None:
                continue
            signature = inspect.signature(function)
            if tuple(signature.parameters)[: len(names)] != names:
                self.problems.append(Problem(place, "has other parameters", str(signature)))

    def same(self, place: str, expected: Any) -> None:
        """A place must hold this object."""
        attribute = self.find(place)
        if None not in (attribute, expected) and attribute is not expected:
            self.problems.append(Problem(place, "is another class", repr(attribute)))

    def fields(self, place: str, fields: set[str], expected: set[str]) -> None:
        """What an object at a place consists of must be exactly what is known."""
        if fields != expected:
            self.problems.append(Problem(place, "has other fields", sorted(fields ^ expected)))

    def attributes(self, place: str, instance: Any, expected: Iterable[str]) -> None:
        """An object of the class at a place must have these attributes."""
        if missing := [name for name in expected if not hasattr(instance, name)]:
            self.problems.append(Problem(place, "lacks attributes", missing))

    def one_of(self, place: str, expected: tuple[str, ...]) -> None:
        """The object at a place must have one of these attributes, whose name differs between versions."""
        attribute = self.find(place)
        if attribute is not None and not any(hasattr(attribute, name) for name in expected):
            self.problems.append(Problem(place, "has none of the attributes", list(expected)))

    def finish(self, engine: str, module: str, action: str) -> None:
        """Ends the check.

        Args:
            engine: name, for people.
            module: the engine's module, whose version is named.
            action: what the operator can do.

        Raises:
            IncompatibleEngine: something differs; names each difference.
        """
        if self.problems:
            version = getattr(sys.modules.get(module), "__version__", "of unknown version")
            raise IncompatibleEngine(
                f"{engine} {version} differs from the versions that constrained knows; nothing was changed",
                self.problems,
                action=action,
            )
