"""Molecule: properties of whole molecules, such as how well they dissolve."""

from foveate.tasks.entry import Entry, labelled_files
from foveate.tasks.prediction import PREDICT

TASK = Entry(
    name="molecule",
    home=__name__,
    summary="properties of molecules, numbers or classes",
    **labelled_files(
        "molecules: a .csv or .tsv table whose first line names the columns, with SMILES and the properties to predict",
        valid="validation molecules; by default molecules for validation and test are split off",
        test="test molecules",
    ),
    lengths={"length": "atoms of a molecule (default 20)"},
    reads_columns=False,
    keeps_test=True,
    verb=PREDICT,
)
