"""Node: a class for each node of a graph, learnt from some nodes whose class is known."""

from foveate.tasks.entry import Entry
from foveate.tasks.prediction import PREDICT

EDGES = "edges between nodes: a table with the names of two nodes, and any features, or a whole graph, .npz or .graphml"
NODES = "nodes beside a table of edges: their names, features, labels and splits, with a line of column names"

TASK = Entry(
    name="node",
    home=__name__,
    summary="classes of the nodes of a graph",
    files={"edges": EDGES, "nodes": NODES},
    tests={
        "edges": "edges of a graph to measure on, or a whole graph: its test nodes, or without splits all with a label",
        "nodes": "its nodes, beside a table of edges",
    },
    reads_columns=False,
    keeps_test=True,
    looks=("hops",),
    verb=PREDICT,
)
