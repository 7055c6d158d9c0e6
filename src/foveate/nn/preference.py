"""A training loss that makes some texts more probable than others."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from foveate.nn.loss import Predictions


def log_probabilities(
    predictions: Predictions,
    tokens: Int[Tensor, " tokens"],
    lengths: Int[Tensor, " texts"],
    texts: Int[Tensor, " chosen"],
) -> Float[Tensor, " chosen"]:
    """Σ_t ln p(y_t) of the texts with these numbers, in nats, in float32 at least.

    The rows of `predictions` and `tokens` stand text after text, and `lengths` are the tokens of each text.

    >>> logits = torch.tensor([[0.0, 0.0], [0.0, torch.inf], [0.0, 0.0]]).nan_to_num(posinf=100)
    >>> tokens, lengths = torch.tensor([0, 1, 1]), torch.tensor([1, 2])
    >>> log_probabilities(Predictions(logits), tokens, lengths, torch.tensor([1, 0]))
    tensor([-0.6931, -0.6931])
    """
    counts = lengths[texts]
    text = torch.arange(len(texts), device=tokens.device).repeat_interleave(counts)
    first, begin = lengths.cumsum(0) - lengths, counts.cumsum(0) - counts
    rows = first[texts][text] + torch.arange(len(text), device=tokens.device) - begin[text]
    logits = predictions.logits(rows)
    precise = logits.to(torch.promote_types(logits.dtype, torch.float32))
    shares = precise.gather(1, tokens[rows][:, None]).squeeze(1) - precise.logsumexp(-1)
    return shares.new_zeros(len(texts)).index_add(0, text, shares)


def preference(better: Float[Tensor, " pairs"], worse: Float[Tensor, " pairs"], beta: float) -> Float[Tensor, " pairs"]:
    """−ln σ(β (ln p(better) − ln p(worse))), in nats, of pairs of texts with these log-probabilities.

    Reference: Rafailov et al. 2023, "Direct preference optimization", equation 7, with a uniform reference model, as in
    Xu et al. 2024, "Contrastive preference optimization".

    >>> preference(torch.tensor([-1.0]), torch.tensor([-1.0]), 0.1)
    tensor([0.6931])
    """
    return -torch.nn.functional.logsigmoid(beta * (better - worse))
