"""Gradient × input and integrated gradients are Captum's, computed for all output words at once."""

from typing import Any

import numpy as np
import pytest
import torch
from captum.attr import InputXGradient, IntegratedGradients

from foveate.data.tokeniser import WordTokeniser
from foveate.inspect.attribution import Answer, gradient_times_input, integrated_gradients
from foveate.models import BahdanauConfig, TransformerConfig
from foveate.nn.transformer_block import BlockConfig
from foveate.tasks.translate.use import Translator

WORDS = WordTokeniser.train(["a red dog saw the old cat"])
BLOCK = BlockConfig(model_dim=32, num_heads=2, feedforward_dim=48)
POINTS = 20
CONFIGS = (
    TransformerConfig(block=BLOCK, encoder_layers=1, decoder_layers=1, share="all"),
    BahdanauConfig(embedding_dim=16, hidden_dim=16, maxout_dim=8),
)


def answered(config: Any) -> Answer:
    translator = Translator(config.build(*[WORDS.vocab_size] * 2), WORDS, WORDS)
    return translator.answer(translator.forced("the red cat saw a dog", "a dog saw"))


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: type(config).__name__)
def test_gradients_are_those_of_captum(config: Any) -> None:
    answer = answered(config)
    vectors = answer.vectors()[None]
    empty = torch.where(torch.from_numpy(answer.places < 0)[:, None], vectors, torch.zeros_like(vectors))
    products, integrals = InputXGradient(answer.scored), IntegratedGradients(answer.scored)
    ours = gradient_times_input(answer).scores, integrated_gradients(answer, steps=POINTS, tolerance=9.0).scores
    for output in range(len(answer.outputs)):
        theirs = (
            products.attribute(vectors.clone().requires_grad_(), target=output),
            integrals.attribute(vectors, baselines=empty, target=output, n_steps=POINTS, method="gausslegendre"),
        )
        for mine, other in zip(ours, theirs, strict=True):
            of_words = other.detach().sum(-1)[0].numpy()[answer.places >= 0]
            np.testing.assert_allclose(mine[output], of_words, atol=2e-6, rtol=1e-4)
