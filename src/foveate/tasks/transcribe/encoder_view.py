"""Views of a recogniser's encoder: one model that learns under several visibility rules, for several latencies.

Reference: Zhang et al. 2020, arXiv 2012.05481, section 2.2: dynamic chunks, whose size each batch draws.
"""

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from foveate.attention import AttentionConfig, Visibility
from foveate.attention.mechanism import require_for_batches
from foveate.data.batch import PairBatch
from foveate.data.variant import Draw
from foveate.errors import UsageError
from foveate.models import RecogniserConfig
from foveate.nn import TransformerEncoderConfig

SETTING = "visibility"
"""The name of a view among the settings of a command."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ViewedBatch(PairBatch):
    """A batch of training with the rule that its step has drawn."""

    rule: Visibility


def drawn_view(views: Sequence[Visibility], draw: Draw) -> Visibility | None:
    """The rule of a step, a function of the seed and the step: one of the views, or None, each as often.

    >>> from foveate.attention import chunk
    >>> [str(drawn_view([chunk(4, left=2), chunk(16, left=1)], Draw(0, step))) for step in range(2, 5)]
    ['None', 'chunk(16, left=1)', 'chunk(4, left=2)']
    """
    if not views:
        return None
    # The last numbers separate this draw from those of masks and speeds.
    number = int(np.random.default_rng([draw.seed % (1 << 64), draw.step, 0, 2]).integers(len(views) + 1))
    return None if number == 0 else views[number - 1]


def require_views(views: Sequence[Visibility], model: RecogniserConfig) -> None:
    """Raise ValueError for an empty list, for an encoder that no rule can restrict, and for rules that a batch of
    recordings cannot honour.
    """
    if not views:
        raise ValueError('views is empty. Leave it out, or list rules: views = ["chunk(8, left=4)"]')
    encoder = model.encoder
    if not isinstance(encoder, TransformerEncoderConfig):
        raise ValueError(f"views restrict attention, which {type(encoder).__name__} lacks: choose a Transformer")
    if not isinstance(encoder.block.encoder_attention, AttentionConfig):
        kind = type(encoder.block.encoder_attention).__name__
        raise ValueError(f"views restrict attention by a visibility rule, which {kind} lacks: choose AttentionConfig")
    for rule in views:
        require_for_batches("views", rule)


def without_view(arguments: argparse.Namespace) -> tuple[argparse.Namespace, Visibility | None]:
    """The arguments of a command without `--set visibility=RULE`, and the rule. Raises UsageError for a rule that
    cannot be read.
    """
    named = [(each, *each.partition("=")[::2]) for each in arguments.set]
    rules = [rule for _, name, rule in named if name.strip().removeprefix("decode.") == SETTING]
    if not rules:
        return arguments, None
    others = [each for each, name, _ in named if name.strip().removeprefix("decode.") != SETTING]
    try:
        rule = Visibility.parse(rules[-1].strip().strip("\"'"))
    except ValueError as error:
        raise UsageError(f"--set {SETTING}: {error}") from None
    return argparse.Namespace(**{**vars(arguments), "set": others}), rule


def view_option(rule: Visibility | None) -> str:
    """The option of a command that names a rule, after a space; empty without a rule.

    >>> from foveate.attention import chunk
    >>> view_option(chunk(4, left=2))
    " --set 'visibility=chunk(4, left=2)'"
    """
    return "" if rule is None else f" --set {shlex.quote(f'{SETTING}={rule}')}"
