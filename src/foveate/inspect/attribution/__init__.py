"""Causes of an answer: by attention and its kin, by gradients and by leave-one-out, with the faithfulness of each."""

from foveate.inspect.attribution.answer import Answer, Way
from foveate.inspect.attribution.attention_share import attention_norms, attention_rollout, attention_weights
from foveate.inspect.attribution.attribution import Attribution
from foveate.inspect.attribution.faithful import Faithfulness, faithfulness
from foveate.inspect.attribution.gradient import gradient_times_input, integrated_gradients
from foveate.inspect.attribution.occlusion import Deletion, deletion, leave_one_out
from foveate.inspect.attribution.rank_correlation import kendall
from foveate.inspect.attribution.reason import Why, why

__all__ = [
    "Answer",
    "Attribution",
    "Deletion",
    "Faithfulness",
    "Way",
    "Why",
    "attention_norms",
    "attention_rollout",
    "attention_weights",
    "deletion",
    "faithfulness",
    "gradient_times_input",
    "integrated_gradients",
    "kendall",
    "leave_one_out",
    "why",
]
