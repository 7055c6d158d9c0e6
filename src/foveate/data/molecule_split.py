"""Splits of molecules into training, validation and test: at random, or by their scaffolds."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from foveate.data.graph import SPLITS
from foveate.data.molecule import scaffold
from foveate.errors import DataError
from foveate.suggestion import counted

SplitKind = Literal["random", "scaffold"]
"""The ways to split molecules."""


def split_molecules(
    smiles: Sequence[str], kind: SplitKind, *, shares: tuple[float, float], seed: int
) -> dict[str, list[int]]:
    """The numbers of the molecules for "train", "valid" and "test"; `shares` are those of the last two.

    random: drawn by the seed. scaffold: molecules with one scaffold stay together; from the most frequent scaffold to
    the rarest, each goes to training while there is room, then to validation, then to the test. The rare scaffolds are
    tested, which is harder. The seed changes nothing then. Reference: Wu et al. 2018 (MoleculeNet), section 3.2.

    Raises DataError if more molecules have one scaffold than are for training.

    >>> split_molecules(["c1ccccc1", "Cc1ccccc1", "CCO", "C1CC1"], "scaffold", shares=(0.25, 0.25), seed=0)
    {'train': [0, 1], 'valid': [2], 'test': [3]}
    """
    count = len(smiles)
    valid, test = (round(share * count) for share in shares)
    train = count - valid - test
    if kind == "random":
        order = np.random.default_rng([seed % (1 << 64), count]).permutation(count)
        parts = np.split(order, [train, train + valid])
        return {name: sorted(part.tolist()) for name, part in zip(SPLITS, parts, strict=True)}
    groups: dict[str, list[int]] = {}
    for number, one in enumerate(smiles):
        groups.setdefault(scaffold(one), []).append(number)
    split: dict[str, list[int]] = {name: [] for name in SPLITS}
    largest = max(groups, key=lambda one: len(groups[one]), default="")
    if groups and len(groups[largest]) > train:
        shared = f"have the scaffold {largest!r}" if largest else "have no rings, and so the same scaffold"
        raise DataError(
            f"{len(groups[largest]):,} of {counted(count, 'molecule')} {shared}, and {train:,} are for training. Split "
            'them with data.split = "random", or take smaller data.valid_share and data.test_share.'
        )
    for numbers in sorted(groups.values(), key=lambda group: (-len(group), group[0])):
        if len(split["train"]) + len(numbers) <= train:
            split["train"] += numbers
        elif len(split["valid"]) + len(numbers) <= valid:
            split["valid"] += numbers
        else:
            split["test"] += numbers
    return {name: sorted(numbers) for name, numbers in split.items()}


def repeated(smiles: Sequence[str], split: dict[str, list[int]]) -> int:
    """The number of molecules for validation and test that are among those for training, too, by canonical SMILES.

    >>> repeated(["CCO", "CC", "CCO"], {"train": [0], "valid": [1], "test": [2]})
    1
    """
    learnt = {smiles[number] for number in split["train"]}
    return sum(smiles[number] in learnt for name, numbers in split.items() if name != "train" for number in numbers)
