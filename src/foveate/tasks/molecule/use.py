"""A trained model over molecules in use: their properties, and the atoms that it looks at."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float32

from foveate.data.descriptor import Ranks
from foveate.data.molecule import BONDS, Molecule, atom_note, drawing_places, read_molecule
from foveate.errors import UsageError
from foveate.inspect import Trace, Track
from foveate.inspect.graph_layout import fitted
from foveate.inspect.looking import Looking
from foveate.inspect.trace import Pedigree
from foveate.inspect.value import observed
from foveate.models.graph_predictor import GraphPredictor
from foveate.nn.readout import AttentionReadout
from foveate.tasks.molecule.property_target import Targets
from foveate.tasks.molecule.task import MoleculeConfig, PlacedMolecules, run_model, stored_ranks
from foveate.tasks.run_model import saved, trained

READOUT = "readout.attention"
"""The name of the read-out's attention in a trace."""


@dataclass(frozen=True)
class PredictedMolecule:
    """A molecule as it was written, and its properties: numbers, or probabilities of class 1."""

    smiles: str
    values: dict[str, float]


class MoleculePredictor(Looking):
    """Predicts properties of molecules. A result depends on no other molecule."""

    model: GraphPredictor

    def __init__(
        self, model: GraphPredictor, targets: Targets, config: MoleculeConfig, ranks: Ranks | None = None
    ) -> None:
        self.model, self.targets, self.config, self.ranks = model.eval(), targets, config, ranks

    @classmethod
    def load(cls, run: Path | str, *, note: Callable[[str], None] = lambda sentence: None) -> "MoleculePredictor":
        """The trained model of a run folder; of an unfinished run, its best checkpoint.

        Raises UsageError for a run of another task, DataError when it has no weights or is damaged.
        """
        folder = Path(run)
        config, _ = saved(folder, "molecule", MoleculeConfig)
        targets, ranks = Targets.open(folder), stored_ranks(config, folder)
        return cls(trained(folder, lambda: config.built(targets, ranks), note), targets, config, ranks)._of(folder)

    def predict(self, smiles: Sequence[str]) -> list[PredictedMolecule]:
        """The properties of several molecules.

        Raises DataError for SMILES that are not valid, and for molecules with more atoms than those of the training
        data could have.
        """
        if isinstance(smiles, str):
            raise TypeError(f"`predict` takes a list of SMILES, got the string {smiles!r:.60}. Write [{smiles!r:.60}].")
        values = self.values([self.molecule(one) for one in smiles]).tolist()
        names = self.targets.names
        return [
            PredictedMolecule(one, dict(zip(names, row, strict=True))) for one, row in zip(smiles, values, strict=True)
        ]

    @torch.inference_mode()
    def values(self, molecules: Sequence[Molecule]) -> Float32[np.ndarray, "molecules targets"]:
        """The properties of molecules that have been read, in the units of the data."""
        if not molecules:
            return np.zeros((0, len(self.targets.names)), np.float32)
        return self.targets.answers(run_model(self.model, self.placed(molecules)))

    def placed(self, molecules: Sequence[Molecule]) -> PlacedMolecules:
        """Molecules as the model reads them."""
        return PlacedMolecules(molecules, self.config.model.place, self.ranks)

    def molecule(self, smiles: str) -> Molecule:
        """The molecule that SMILES describe. Raises as `predict` does."""
        return read_molecule(smiles, most=self.config.data.max_atoms)

    @torch.inference_mode()
    def trace(self, text: str) -> Trace:
        """The attention of atoms on atoms, and that of the read-out, in a molecule as SMILES.

        Tracks: `atoms`, with their places in a drawing, and `molecule`, the answer. Raises UsageError for a model
        without attention, DataError as `predict` does.
        """
        molecule = self.molecule(text)
        placed = self.placed([molecule])
        observation = observed(self.model, lambda: self.model(placed.batch([0])))
        answers = zip(self.targets.names, self.values([molecule])[0].tolist(), strict=True)
        answer = ", ".join(f"{name} {value:.3g}" for name, value in answers)
        tracks = {"atoms": atom_track(molecule), "molecule": Track(labels=(answer,))}
        trace = Trace.of(observation, tracks, pedigree=Pedigree.of(self.model))
        if not trace.sites:
            raise UsageError(
                f"This model reads molecules by a {type(self.model.encoder).__name__} and a "
                f"{type(self.model.readout).__name__}, without attention: there is nothing to look at. Train with "
                "--set model.readout=attention."
            )
        if not isinstance(self.model.readout, AttentionReadout):
            return trace
        return Trace(tracks=trace.tracks, sites=trace.sites, pedigree=trace.pedigree, opens=(READOUT, None))

    def strange(self, text: str) -> list[str]:
        """Parts of an input that the model does not know: none, because RDKit reads it or refuses it."""
        return []


def atom_track(molecule: Molecule) -> Track:
    """The atoms of a molecule, with their bonds and places for a drawing."""
    graph = molecule.graph
    pairs, number = graph.edges_both_ways()
    assert graph.edge_features is not None
    kinds = graph.edge_features[number][:, : len(BONDS)]
    bonds = [BONDS[kind].lower() for kind in kinds.argmax(1).tolist()] if len(kinds) else []
    places = drawing_places(molecule.smiles) * np.array([1, -1], np.float32)
    notes = [f"atom {place}: {note}" for place, note in enumerate(map(atom_note, np.asarray(graph.features)))]
    return Track.of_nodes(graph.names, pairs, places=fitted(places), bonds=bonds, notes=notes)
