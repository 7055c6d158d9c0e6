"""Synthetic data made by rules: reproducible by a seed, and with known answers."""

from foveate.data.synthetic.curve import curves
from foveate.data.synthetic.labelled_sequence import Labelled
from foveate.data.synthetic.list_operation import LIST_TOKENS, list_operations
from foveate.data.synthetic.opinion import opinions
from foveate.data.synthetic.rule_pair import Rule, synthetic
from foveate.data.synthetic.shape import SHAPES, shapes
from foveate.data.synthetic.tagged import tagged_sentences
from foveate.data.synthetic.tone import Spelled, tones

__all__ = [
    "LIST_TOKENS",
    "SHAPES",
    "Labelled",
    "Rule",
    "Spelled",
    "curves",
    "list_operations",
    "opinions",
    "shapes",
    "synthetic",
    "tagged_sentences",
    "tones",
]
