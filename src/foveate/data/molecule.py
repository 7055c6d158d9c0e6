"""Molecules as graphs: SMILES by RDKit, with features of atoms and of bonds."""

from collections.abc import Callable, Hashable, Sequence
from contextlib import redirect_stderr
from functools import partial
from io import StringIO
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Float32

from foveate.data.graph import Graph
from foveate.data.text import short
from foveate.errors import DataError, SetupError
from foveate.suggestion import counted

ELEMENTS = ("C", "N", "O", "F", "P", "S", "Cl", "Br", "I", "B", "Si", "Se", "Na", "K", "Li", "Ca", "Mg", "Zn", "H")
HYBRIDISATIONS = ("S", "SP", "SP2", "SP3", "SP3D", "SP3D2")
RINGS = (3, 4, 5, 6, 7)
"""The sizes of rings that an atom may be in."""
BONDS = ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC")
STEREO = ("STEREOE", "STEREOZ")
LARGEST = 5000
"""The most atoms of a molecule, with the hydrogens that are written."""
REMEDY = "Correct it, or remove the line."


class Molecule(NamedTuple):
    """A molecule: its atoms are nodes, its bonds are edges."""

    smiles: str
    """Canonical SMILES by RDKit: two molecules are the same if and only if these are the same."""
    graph: Graph
    """Nodes are named by their elements and charges."""
    descriptors: Float32[np.ndarray, " descriptors"] | None = None
    """Numbers about the whole molecule, for models that read them: see `with_descriptors`."""

    def __len__(self) -> int:
        """The number of atoms, hydrogens not counted."""
        return len(self.graph)


def read_molecule(smiles: str, most: int | None = None) -> Molecule:
    """The molecule that SMILES describe. Hydrogens are features of the atoms that they are bound to.

    Atoms stand in the order of the canonical SMILES, so that two ways to write a molecule give the same graph.

    Features of atoms, as numbers 0 and 1: the element, the degree, the formal charge, the number of hydrogens, the
    hybridisation, aromaticity, the sizes of rings; of bonds: the kind, conjugation, whether they are in rings, E or Z.
    Salts have several parts without a bond between them.

    >>> ethanol = read_molecule("OCC")
    >>> ethanol.smiles, ethanol.graph.names, ethanol.graph.edges.tolist()
    ('CCO', ('C', 'C', 'O'), [[0, 1], [1, 2]])

    Raises DataError for text after a space, for a molecule of more than `most` atoms without hydrogens, or of more than
    5,000 at all, and with RDKit's reason for SMILES that are not valid; SetupError without RDKit.
    """
    toolkit = chemistry()
    written = _parsed(toolkit, smiles, most)
    canonical = toolkit.MolToSmiles(written)
    order = list(written.GetPropsAsDict(includePrivate=True, includeComputed=True)["_smilesAtomOutputOrder"])
    molecule = toolkit.RenumberAtoms(written, order)
    rings = molecule.GetRingInfo()
    atoms = [_atom_features(atom, rings) for atom in molecule.GetAtoms()]
    bonds = list(molecule.GetBonds())
    graph = Graph(
        features=np.array(atoms, np.float32),
        edges=np.array([(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in bonds], np.int64).reshape(-1, 2).T,
        edge_features=np.array([_bond_features(bond) for bond in bonds], np.float32).reshape(len(bonds), BOND_WIDTH),
        names=tuple(_name(atom) for atom in molecule.GetAtoms()),
    )
    return Molecule(canonical, graph)


def scaffold(smiles: str) -> str:
    """The Bemis–Murcko scaffold of a molecule as canonical SMILES: its rings and what links them, without chirality.

    Molecules without rings have the empty scaffold. Reference: Bemis and Murcko 1996.

    >>> scaffold("CCc1ccccc1O"), scaffold("CCO")
    ('c1ccccc1', '')
    """
    toolkit = chemistry()
    from rdkit.Chem.Scaffolds import MurckoScaffold

    molecule = _parsed(toolkit, smiles)
    return str(MurckoScaffold.MurckoScaffoldSmiles(mol=molecule, includeChirality=False))


def drawing_places(smiles: str) -> Float[np.ndarray, "atoms 2"]:
    """Places of atoms for a drawing: RDKit's, in the order of the SMILES, in lengths of about 1.5 for a bond, the
    second axis upwards.
    """
    toolkit = chemistry()
    from rdkit.Chem import rdDepictor

    molecule = _parsed(toolkit, smiles)
    rdDepictor.Compute2DCoords(molecule)
    places: Float[np.ndarray, "atoms 2"] = np.array(molecule.GetConformer().GetPositions()[:, :2], np.float32)
    return places


def atom_note(features: Float[np.ndarray, " atom_width"]) -> str:
    """The features of an atom in words.

    >>> [atom_note(row) for row in read_molecule("Oc1ccccc1").graph.features[:2]]
    ['O, 1 hydrogen', 'C, aromatic, in a ring']
    """
    elements, hydrogens = features[: len(ELEMENTS)], features[HYDROGENS : HYDROGENS + 5]
    aromatic, ring = features[-len(RINGS) - 2 : -len(RINGS)]
    count = int(hydrogens.argmax())
    parts = [
        ELEMENTS[int(elements.argmax())] if elements.any() else "another element",
        *([counted(count, "hydrogen")] if count else []),
        *(["aromatic"] if aromatic else []),
        *(["in a ring"] if ring else []),
    ]
    return ", ".join(parts)


def chemistry() -> Any:
    """RDKit's module Chem. Raises SetupError without RDKit."""
    try:
        from rdkit import Chem
    except ImportError:
        raise SetupError(
            "Reading molecules needs the package rdkit. Install it with: pip install 'foveate[molecule]'"
        ) from None
    return Chem


def _parsed(toolkit: Any, smiles: str, most: int | None = None) -> Any:
    from rdkit import rdBase

    smiles, *rest = smiles.split(maxsplit=1) or [""]
    if not smiles:
        raise DataError(f"The SMILES are empty, and a molecule needs an atom. {REMEDY}")
    if rest:
        raise DataError(
            f"{smiles!r} are followed by text after a space, {short(rest[0])}, which is not part of the SMILES. Remove "
            "it; lines of a .smi file may have a name there."
        )
    with rdBase.BlockLogs():
        _require_small(toolkit, smiles, most)
        molecule = toolkit.MolFromSmiles(smiles)
    if molecule is None:
        reason = reason_of_rdkit(partial(toolkit.MolFromSmiles, smiles))
        raise DataError(f"{smiles!r} is not valid SMILES: {reason} {REMEDY}")
    if not molecule.GetNumAtoms():
        raise DataError(f"{smiles!r} describes a molecule without atoms. {REMEDY}")
    return molecule


def _require_small(toolkit: Any, smiles: str, most: int | None) -> None:
    """Raises DataError for too many atoms, before RDKit looks for rings and an order: its time grows faster than their
    number, and its recursion ends the process for a chain of 20,000.
    """
    plain = toolkit.SmilesParserParams()
    plain.sanitize = plain.removeHs = False
    molecule = toolkit.MolFromSmiles(smiles, plain)
    if molecule is None:
        return
    if molecule.GetNumAtoms() > LARGEST:
        raise DataError(
            f"{smiles:.60} … has {molecule.GetNumAtoms():,} atoms, and a molecule may have {LARGEST:,}. {REMEDY}"
        )
    if most is not None and molecule.GetNumHeavyAtoms() > most:
        raise DataError(
            f"{smiles:.60} has {molecule.GetNumHeavyAtoms()} atoms, and the model was trained with at most {most} "
            "(data.max_atoms). Train one with larger molecules."
        )


def reason_of_rdkit(parse: Callable[[], Any]) -> str:
    """RDKit's reason for refusing a molecule, which stands only in its log: this parses it again."""
    from rdkit import rdBase

    # Python's logging would depend on what the program around it has disabled.
    rdBase.LogToPythonStderr()
    try:
        with redirect_stderr(StringIO()) as messages:
            parse()
    finally:
        rdBase.LogToCppStreams()
    lines = [line.strip() for line in messages.getvalue().splitlines() if line.strip()]
    reason = lines[0].partition("] ")[2] or lines[0] if lines else "RDKit gives no reason"
    return f"{reason.rstrip('.:')}."


def _one_hot(value: Hashable, values: Sequence[Hashable]) -> list[bool]:
    """One of these values, or another."""
    return [*(value == one for one in values), value not in values]


def _atom_features(atom: Any, rings: Any) -> list[bool]:
    return [
        *_one_hot(atom.GetSymbol(), ELEMENTS),
        *_one_hot(atom.GetDegree(), range(6)),
        *_one_hot(atom.GetFormalCharge(), range(-2, 3)),
        *_one_hot(atom.GetTotalNumHs(), range(5)),
        *_one_hot(str(atom.GetHybridization()), HYBRIDISATIONS),
        atom.GetIsAromatic(),
        atom.IsInRing(),
        *(rings.IsAtomInRingOfSize(atom.GetIdx(), size) for size in RINGS),
    ]


def _bond_features(bond: Any) -> list[bool]:
    stereo = str(bond.GetStereo())
    return [
        *_one_hot(str(bond.GetBondType()), BONDS),
        bond.GetIsConjugated(),
        bond.IsInRing(),
        *(stereo == name for name in STEREO),
    ]


def _name(atom: Any) -> str:
    """The element with its charge, such as `N+` and `O2−`."""
    charge = atom.GetFormalCharge()
    size = "" if abs(charge) < 2 else str(abs(charge))
    return f"{atom.GetSymbol()}{size}{'' if not charge else '+' if charge > 0 else '−'}"


HYDROGENS = len(ELEMENTS) + 1 + 7 + 6
"""The place of the first feature that counts hydrogens."""
ATOM_WIDTH = len(ELEMENTS) + 1 + 7 + 6 + 6 + len(HYBRIDISATIONS) + 1 + 2 + len(RINGS)
"""The number of features of an atom."""
BOND_WIDTH = len(BONDS) + 1 + 2 + len(STEREO)
"""The number of features of a bond."""
