"""The memory review of a Recurrent Attention Network: tokens attend to the cells of the windows."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import silu

from foveate.attention import Attention, Positions, causal, padding
from foveate.nn.dropout import add_dropped
from foveate.nn.linear_layer import Linear
from foveate.nn.ran_gate import Gate, Norm, Standard
from foveate.nn.ran_window import Windows


class Review(nn.Module):
    """Q = f(O W_q),  K, V = f(S W_k), f(S W_v),  LN(f(softmax(Q Kᵀ / √d) V W_o) + GLU(Q))

    One head of full width attends to the cells S = [c_1 … c_m]; the residual is the projected query. With `looks_back`,
    the tokens of window i see only the cells of windows before i; those of the first window have the context 0.

    Reference: Li et al. 2023, "memory review".
    """

    def __init__(self, model_dim: int, norm: Standard, dropout: float, *, looks_back: bool) -> None:
        super().__init__()
        self.query = Linear(model_dim, model_dim)
        self.memory = Linear(model_dim, 2 * model_dim)
        self.output = Linear(model_dim, model_dim)
        self.gate, self.norm = Gate(model_dim), Norm(model_dim, norm)
        self.dropout, self.looks_back = dropout, looks_back
        self.attention = Attention(visibility=causal() & padding() if looks_back else padding(), kind="cross")
        for weight in (self.query.weight, *self.memory.weight.chunk(2), self.output.weight):
            nn.init.xavier_uniform_(weight)
        for layer in (self.query, self.memory, self.output):
            nn.init.zeros_(layer.bias)

    def forward(
        self,
        tokens: Float[Tensor, "batch windows width model_dim"],
        cells: Float[Tensor, "batch cells model_dim"],
        live: Bool[Tensor, "batch cells"],
        windows: Windows,
        prefix: Int[Tensor, " batch"] | None = None,
    ) -> Float[Tensor, "batch windows width model_dim"]:
        """The tokens after the review. The last `windows` cells belong to these tokens."""
        query = silu(self.query(tokens))
        key, value = silu(self.memory(cells))[:, None].chunk(2, -1)
        at = self._positions(live, windows, prefix)
        context = self.attention.run(query.flatten(1, 2)[:, None], key, value, at=at)
        output = silu(self.output(context[:, 0].unflatten(1, query.shape[1:3])))
        return self.norm(add_dropped(self.gate(query), output, self.dropout, self.training))

    def _positions(
        self, live: Bool[Tensor, "batch cells"], windows: Windows, prefix: Int[Tensor, " batch"] | None
    ) -> Positions:
        """A token's position is its window. A cell is visible from the next window on; within a prefix, at once."""
        count = live.shape[1]
        window = torch.arange(count, device=live.device)
        query = window[count - windows.count :].repeat_interleave(windows.width)
        key = (window + 1).expand(1, -1)
        if prefix is not None:
            key = torch.where(windows.within(prefix), 0, key)
        return Positions(query[None, None, :, None], key[:, None, None], live[:, None, None])
