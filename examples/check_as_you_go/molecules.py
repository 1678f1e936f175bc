"""Molecules that a chemistry toolkit accepts: the grammar knows SMILES, RDKit knows valences and rings."""

from rdkit import Chem, RDLogger

import constrained
from grammars.notation import library

RDLogger.DisableLog("rdApp.*")  # what it refuses is no news here


def is_molecule(smiles: str) -> bool:
    """Whether RDKit can make a molecule of it."""
    return Chem.MolFromSmiles(smiles) is not None


smiles = constrained.gbnf(library.text("smiles"))
checked = smiles & constrained.predicate(complete_ok=is_molecule)
generator = constrained.Generator(constrained.load(), checked)
for seed in range(5):
    output = generator("A small molecule as SMILES:", temperature=1.0, seed=seed, max_tokens=10)
    molecule = Chem.MolFromSmiles(output.text)
    print(f"{output.text}     {molecule.GetNumAtoms()} atoms, {output.stats.checks} checks")
