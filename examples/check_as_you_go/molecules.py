"""Molecules that a chemistry toolkit accepts: a grammar checks the SMILES syntax, RDKit checks valences and rings."""

from rdkit import Chem, RDLogger

import constrained
from constrained.grammars.notation import library

RDLogger.DisableLog("rdApp.*")  # rejected molecules are expected


def is_molecule(smiles: str) -> bool:
    """Whether RDKit accepts the SMILES string."""
    return Chem.MolFromSmiles(smiles) is not None


smiles = constrained.gbnf(library.text("smiles"))
checked = smiles & constrained.predicate(complete_ok=is_molecule)
generator = constrained.Generator(constrained.load(), checked)
for seed in range(5):
    output = generator("A small molecule as SMILES:", temperature=1.0, seed=seed, max_tokens=10)
    molecule = Chem.MolFromSmiles(output.text)
    print(f"{output.text}     {molecule.GetNumAtoms()} atoms, {output.stats.checks} checks")
