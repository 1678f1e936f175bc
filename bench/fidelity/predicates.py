"""Predicates of two tasks: the columns that a query names exist, and the atoms of a molecule have room for their bonds."""

from __future__ import annotations

from dataclasses import dataclass, field

TABLES = {"cat": ("name", "age"), "city": ("name", "size")}
"""Tables of the SQL tasks, with their columns."""


def has_columns(query: str, whole: bool) -> bool:
    """Whether some table has all columns that a query names.

    Args:
        query: a query of the tasks' grammar, or the beginning of one.
        whole: it is a query; otherwise its last name may go on.
    """
    if not query.startswith("SELECT "):
        return True
    selected, from_, rest = query.partition(" FROM ")
    table, where, condition = rest.partition(" WHERE ")
    listed, gap, _ = selected.removeprefix("SELECT ").partition(" ")
    columns = listed.split(",")
    if where:
        columns.append(condition.partition("=")[0])
    unfinished = (where and "=" not in condition) or not (from_ or gap)
    last = columns.pop() if unfinished and not whole else None
    for name, known in TABLES.items():
        named = name == table if where or whole else name.startswith(table.partition(" ")[0])
        fits = last is None or any(column.startswith(last) for column in known)
        if named and fits and set(columns) <= set(known):
            return True
    return False


VALENCES = {"C": 4, "N": 3, "O": 2}
"""Bonds that an atom has at most; hydrogen fills the rest."""


@dataclass(slots=True)
class _Molecule:
    """A molecule that is read from left to right.

    Attributes:
        free: by atom: bonds that are left.
        bonds: pairs of atoms.
        current: the atom that the next one is bound to; None before the first.
        branches: atoms to which closing parentheses return.
        order: of the next bond.
        ring: the atom of an open ring bond.
    """

    free: list[int] = field(default_factory=list)
    bonds: set[tuple[int, int]] = field(default_factory=set)
    current: int | None = None
    branches: list[int] = field(default_factory=list)
    order: int = 1
    ring: int | None = None

    def read(self, letter: str) -> bool:
        """Reads a letter; False where an atom has no room for a bond."""
        current = self.current
        if letter in VALENCES:
            self.free.append(VALENCES[letter])
            self.current = len(self.free) - 1
            if current is None:
                return True
            return self._bind(current, self.current)
        assert current is not None, "the grammar begins with an atom"
        if letter == "(":
            self.branches.append(current)
            return self.free[current] >= 1
        if letter == ")":
            self.current = self.branches.pop()
        elif letter == "=":
            self.order = 2
            return self.free[current] >= 2
        elif self.ring is None:
            self.ring = current
            self.free[current] -= 1
            return self.free[current] >= 0
        else:  # the atom of the open bond paid for it
            opened, self.ring = self.ring, None
            self.free[opened] += 1
            return self._bind(opened, current)
        return True

    def _bind(self, one: int, other: int) -> bool:
        if (one, other) in self.bonds:
            return False
        self.bonds.add((one, other))
        self.free[one] -= self.order
        self.free[other] -= self.order
        self.order = 1
        return min(self.free[one], self.free[other]) >= 0

    @property
    def can_close_ring(self) -> bool:
        """Whether no ring is open, or another atom can follow."""
        atoms = [] if self.current is None else [self.current, *self.branches]
        return self.ring is None or any(self.free[atom] >= 1 for atom in atoms)


def has_valences(smiles: str, whole: bool) -> bool:
    """Whether the atoms of a molecule have at most as many bonds as their elements allow, and its rings can be closed.

    Args:
        smiles: in the letters C, N, O, parentheses, = and 1, by the task's grammar; or the beginning of one.
        whole: all rings must be closed.
    """
    molecule = _Molecule()
    return all(molecule.read(letter) for letter in smiles) and (
        molecule.ring is None if whole else molecule.can_close_ring
    )
