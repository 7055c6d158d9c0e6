"""The command `predict`, which the tasks on graphs share: the run decides which task answers."""

import argparse

from foveate.tasks.entry import Verb


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--probabilities", action="store_true", help="nodes: print the probability of each class")
    parser.add_argument(
        "--edges", metavar="FILE", help="nodes of another graph: its table of edges, or the whole graph in one file"
    )
    parser.add_argument("--nodes", metavar="FILE", help="with --edges: the table of nodes of that graph")


PREDICT = Verb(
    name="predict",
    summary="predict what graphs do not say: classes of nodes, properties of molecules",
    input="names of nodes, by default all; or molecules as SMILES, or files of them (.csv, .tsv, or lines), by "
    "default the lines of standard input",
    placeholder="NODE|SMILES",
    options=options,
    epilog="""
examples:
  foveate predict papers/ 31336 1061127
  foveate predict papers/ > classes.tsv
  foveate predict papers/ 31336 --probabilities
  foveate predict papers/ --edges new-edges.tsv --nodes new-nodes.tsv
  foveate predict solubility/ CCO "c1ccccc1O"
  foveate predict solubility/ molecules.csv > properties.tsv

Prints one line for each node, tab-separated: its name, its class and the probability of the class; with --probabilities
the name, and all classes, each preceded by its probability. A first line names the columns where no nodes are named.
One line for each molecule: its SMILES and its properties, numbers or the probability of class 1; a first line names the
columns unless all molecules are arguments. A line is empty for SMILES that cannot be read.
""",
)
