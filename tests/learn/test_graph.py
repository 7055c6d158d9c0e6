"""GATv2 looks up in a dictionary, where the best neighbour depends on the node that looks; GAT ranks all alike."""

from typing import Literal

import torch
from torch.nn.functional import cross_entropy, one_hot

from foveate.attention import GatConfig, GatV2Config, ScoreConfig, record
from foveate.nn.graph_layer import GraphAttention
from foveate.nn.neighbourhood import Neighbourhood

KEYS = 8


def learnt(score: ScoreConfig, join: Literal["concat", "mean"] = "concat") -> tuple[float, torch.Tensor]:
    """The share of right answers after training, and the weights of the last graph: `query key`.

    The bipartite graph of Brody et al. 2022, section 4.1: each of the queries has a key, each of the keys has it, too,
    and a value that changes from graph to graph. The answer of a query is the value of the node with its key.
    """
    torch.manual_seed(0)
    pairs = torch.cartesian_prod(torch.arange(KEYS), torch.arange(KEYS, 2 * KEYS)).T.flip(0)
    neighbourhood = Neighbourhood(pairs, 2 * KEYS)
    layer = GraphAttention(input_dim=3 * KEYS, head_dim=32, num_heads=1, score=score, join=join, self_loops=False)
    output = torch.nn.Linear(32, KEYS)
    optimiser = torch.optim.Adam([*layer.parameters(), *output.parameters()], lr=0.01)
    right = []
    for step in range(500):
        values = torch.randperm(KEYS)
        queries = torch.cat([one_hot(torch.arange(KEYS), KEYS), torch.zeros(KEYS, 2 * KEYS)], 1)
        keys = torch.cat([torch.zeros(KEYS, KEYS), one_hot(torch.arange(KEYS), KEYS), one_hot(values, KEYS)], 1)
        logits = output(layer(torch.cat([queries, keys]), neighbourhood))[:KEYS]
        optimiser.zero_grad()
        cross_entropy(logits, values).backward()
        optimiser.step()
        if step >= 450:
            right.append(float((logits.argmax(1) == values).float().mean()))
    with record(layer) as recording, torch.no_grad():
        layer(torch.cat([queries, keys]), neighbourhood)
    return sum(right) / len(right), recording["attention"].weights()[0, 0, :KEYS, KEYS:]


def test_gat_v2_learns_a_dictionary_lookup_that_gat_cannot() -> None:
    dynamic, weights = learnt(GatV2Config())
    static, alike = learnt(GatConfig())
    assert dynamic > 0.95
    assert weights.argmax(1).tolist() == list(range(KEYS))
    assert static < 0.5
    assert len(set(alike.argmax(1).tolist())) == 1
