"""A model over molecules behind an address."""

from collections.abc import Mapping, Sequence
from typing import Any

from foveate.tasks.molecule.use import MoleculePredictor
from foveate.tasks.served import Answered, Served, numbered, require_settings


class ServedPredictor(Served):
    """Predicts properties of molecules. A text is the SMILES of one."""

    verb = "predict"
    sample: tuple[str, Mapping[str, Any]] = ("CCO", {})
    reader: MoleculePredictor

    def answer(self, texts: Sequence[str], settings: Mapping[str, Any]) -> list[Answered]:
        """`{"values": {property: …}}`: numbers in the units of the training data, or probabilities of class 1."""
        require_settings(settings, self.settings)
        molecules = numbered(texts, self.reader.molecule)
        rows = self.reader.values(molecules).tolist()
        return [
            Answered({"values": dict(zip(self.reader.targets.names, row, strict=True))}, len(molecule))
            for molecule, row in zip(molecules, rows, strict=True)
        ]

    def strange(self, text: str, settings: Mapping[str, Any]) -> list[str]:
        """No word: RDKit reads SMILES or refuses them."""
        return []

    def tokens(self, text: str) -> int:
        """The number of atoms."""
        return len(self.reader.molecule(text))
