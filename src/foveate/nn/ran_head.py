"""A classifier head that predicts one or several labels for each document of a recurrent attention network."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import silu

from foveate.attention.check import require_positive, require_rates
from foveate.nn.dropout import dropout
from foveate.nn.linear_layer import Linear
from foveate.nn.ran_gate import Gate
from foveate.nn.ran_layer import RANOutput


class RANHead(nn.Module):
    """logits = W_2 f(W_1 (W_p max_t O_t + GLU(f(W_c g)))),  f = swish, g the document's vector

    Apply softmax to the logits for one label per document, sigmoid for several.

    Reference: Li et al. 2023, section 3, "O^p add G_m"; the widths are those of the published classifiers.
    """

    def __init__(self, model_dim: int, classes: int, *, hidden_dim: int = 128, dropout: float = 0.0) -> None:
        super().__init__()
        require_positive(model_dim=model_dim, classes=classes, hidden_dim=hidden_dim)
        require_rates(dropout=dropout)
        self.pooled, self.cell = Linear(model_dim, model_dim, bias=False), Linear(model_dim, model_dim, bias=False)
        self.gate = Gate(model_dim)
        self.hidden, self.output = Linear(model_dim, hidden_dim), Linear(hidden_dim, classes)
        self.dropout = dropout
        for layer in (self.pooled, self.cell, self.hidden, self.output):
            nn.init.xavier_uniform_(layer.weight)
        for layer in (self.hidden, self.output):
            nn.init.zeros_(layer.bias)

    def forward(
        self, output: RANOutput, lengths: Int[Tensor, " batch"] | None = None
    ) -> Float[Tensor, "batch classes"]:
        """The logits; `lengths` exclude padding from the maximum."""
        joined = self.pooled(_highest(output.tokens, lengths)) + self.gate(silu(self.cell(output.document)))
        return self.output(dropout(silu(self.hidden(joined)), self.dropout, self.training))


def _highest(
    tokens: Float[Tensor, "batch length model_dim"], lengths: Int[Tensor, " batch"] | None
) -> Float[Tensor, "batch model_dim"]:
    """The maximum over real tokens, feature by feature; 0 for a document without any."""
    if tokens.shape[1] == 0:
        return tokens.sum(1)
    if lengths is None:
        return tokens.amax(1)
    real = torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None]
    highest = torch.where(real[..., None], tokens, -torch.inf).amax(1)
    return torch.where(lengths[:, None] > 0, highest, 0.0)
