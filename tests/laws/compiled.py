"""Run by test_compile.py in a process without type checks, which torch.compile does not trace."""

import torch

from foveate.attention import (
    AdditiveConfig,
    Alibi,
    Attention,
    Positions,
    ScaledDot,
    Sparsemax,
    causal,
    chooser,
    padding,
    window,
)


def main() -> None:
    torch.manual_seed(0)
    given = [torch.randn(2, 2, 6, 8) for _ in range(3)]
    at = Positions.of(6, 6, key_lengths=torch.tensor([6, 4]))
    additive = AdditiveConfig(hidden_dim=4).build(query_dim=8, key_dim=8)
    cases = []
    for rule in (causal(), padding(), window(left=2, right=1)):
        for parts in ({}, {"bias": Alibi(2)}, {"normaliser": Sparsemax()}, {"score": additive}):
            attention = Attention(**{"score": ScaledDot(), **parts}, visibility=rule)
            cases.append((attention, attention.run(*given, at=at)))

    def asked(*_: object, **__: object) -> float:
        raise AssertionError("the rules were traced")

    chooser.Call.__init__ = asked
    for attention, expected in cases:
        compiled = torch.compile(lambda q, k, v, a=attention: a.run(q, k, v, at=at), backend="eager")
        torch.testing.assert_close(compiled(*given), expected, atol=1e-5, rtol=1e-4)
        torch._dynamo.reset()
    attention, graphs = Attention(), []
    torch.compile(attention.run, backend=lambda graph, _: graphs.append(graph.code) or graph)(*given)
    assert any("scaled_dot_product_attention" in code for code in graphs), "compiled without torch's kernel"
    print(len(cases), "compiled")


if __name__ == "__main__":
    main()
