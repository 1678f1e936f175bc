"""The task of molecules judged by RDKit: does its predicate accept the texts of its grammar that RDKit accepts?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from constrained.automaton import DEAD, Automaton, compile
from constrained.bench.fidelity.measure import TaskMeasurement
from constrained.bench.fidelity.predicates import has_valences
from constrained.bench.fidelity.tasks import MOLECULES
from constrained.bench.harness.tables import ReportTable
from constrained.constraint import gbnf
from constrained.extras import require_extra

FAMILY = "molecules"


@dataclass(frozen=True, slots=True)
class JudgedMolecules:
    """All texts of the grammar within the limit of a task.

    Attributes:
        task: its name.
        rdkit: version.
        texts: how many there are.
        accepted: by the predicate and by RDKit.
        predicate_alone, rdkit_alone: the texts that one of them accepts.
        disputed: share of the exact distribution that RDKit does not accept.
    """

    task: str
    rdkit: str
    texts: int
    accepted: int
    predicate_alone: tuple[str, ...]
    rdkit_alone: tuple[str, ...]
    disputed: float


def judge_molecules(measured: TaskMeasurement) -> JudgedMolecules:
    """Judges all texts of the grammar, those that no sampler draws too.

    Raises:
        MissingExtra: RDKit is not installed.
    """
    with require_extra("chemistry"):
        import rdkit
        from rdkit import Chem, RDLogger
    RDLogger.DisableLog("rdApp.*")  # it prints why it refuses each molecule
    texts = list(_texts(compile(gbnf(MOLECULES), measured.model.vocabulary), measured.task.limit))
    ours = {text for text in texts if has_valences(text, True)}
    theirs = {text for text in texts if Chem.MolFromSmiles(text) is not None}
    return JudgedMolecules(
        measured.task.name,
        rdkit.__version__,
        len(texts),
        len(ours & theirs),
        tuple(sorted(ours - theirs)),
        tuple(sorted(theirs - ours)),
        sum(share for text, share in measured.exact.conditional.items() if text not in theirs),
    )


def _texts(automaton: Automaton, limit: int) -> Iterator[str]:
    """All texts of at most so many tokens, shortest first."""
    level = [("", automaton.start)]
    letters = [(i, piece.decode()) for i, piece in enumerate(automaton.vocabulary.tokens) if piece]
    for _ in range(limit):
        level = [
            (text + letter, after)
            for text, state in level
            for token, letter in letters
            if (after := automaton.next(state, token)) != DEAD
        ]
        yield from (text for text, state in level if automaton.accepts(state))


def molecules_table(judged: JudgedMolecules) -> ReportTable:
    """A line."""
    columns = ["texts of the grammar", "accepted by both", "by the predicate alone", "by RDKit alone", "P refused by RDKit"]  # fmt: skip
    counts = (
        judged.texts,
        judged.accepted,
        len(judged.predicate_alone),
        len(judged.rdkit_alone),
        judged.disputed,
    )
    return ReportTable(
        f"molecules judged by RDKit {judged.rdkit}", columns, [(judged.task, [f"{n:g}" for n in counts])]
    )
