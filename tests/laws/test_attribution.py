"""What attributions have to satisfy, whatever reads the text."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from foveate.attention import AttentionConfig, window
from foveate.data.batch import Batch
from foveate.data.label import Labels
from foveate.data.tokeniser import BOS, EOS, CharacterTokeniser, WordTokeniser
from foveate.inspect.attribution import (
    Answer,
    Attribution,
    attention_norms,
    attention_rollout,
    attention_weights,
    deletion,
    gradient_times_input,
    integrated_gradients,
    leave_one_out,
    why,
)
from foveate.inspect.attribution import answer as answers
from foveate.inspect.attribution.answer import Entrance
from foveate.models import BahdanauConfig, BERTConfig, GPTConfig, RecurrentLanguageModelConfig, TransformerConfig
from foveate.models.classifier import ClassifierConfig
from foveate.models.tagger import TaggerConfig
from foveate.nn.encoder import RNNEncoderConfig, TransformerEncoderConfig
from foveate.nn.pooling import FirstPoolingConfig, MeanPoolingConfig
from foveate.nn.transformer_block import BlockConfig
from foveate.tasks.classify.use import TextClassifier
from foveate.tasks.language_model.use import Generator
from foveate.tasks.masked_language_model.use import Filler
from foveate.tasks.tag.task import WordVocabulary
from foveate.tasks.tag.use import SentenceTagger
from foveate.tasks.translate.use import Translator

TEXT = "a red dog saw the old cat"
KNOWN = WordTokeniser.train([TEXT])
LETTERS = CharacterTokeniser.train([TEXT])
SMALL = BlockConfig(model_dim=32, num_heads=2, feedforward_dim=48)
LAYERS = TransformerEncoderConfig(block=SMALL, num_layers=2)
SIZES = KNOWN.vocab_size, 3, LETTERS.vocab_size
NAMES = Labels(["x", "y", "z"])
METHODS: tuple[Callable[[Answer], Attribution], ...] = (
    attention_weights,
    attention_norms,
    attention_rollout,
    gradient_times_input,
    integrated_gradients,
    leave_one_out,
)


def translated(config: Any = TransformerConfig(block=SMALL, encoder_layers=2, decoder_layers=2)) -> Answer:
    translator = Translator(config.build(*[KNOWN.vocab_size] * 2), KNOWN, KNOWN)
    return translator.answer(translator.forced(TEXT, "the old dog"))


def tagged(encoder: Any = LAYERS, *, pieces: bool = False) -> Answer:
    vocabulary = WordVocabulary(KNOWN, LETTERS, NAMES, in_pieces=pieces)
    return SentenceTagger(TaggerConfig(encoder=encoder).build(*SIZES), vocabulary).answer(TEXT)


def classified(encoder: Any = LAYERS, **others: Any) -> Answer:
    model = ClassifierConfig(encoder=encoder, **others).build(KNOWN.vocab_size, 3)
    return TextClassifier(model, KNOWN, NAMES).answer(TEXT)


def continued(config: Any = GPTConfig(block=SMALL, num_layers=2)) -> Answer:
    return Generator(config.build(KNOWN.vocab_size), KNOWN).answer(TEXT)


def filled() -> Answer:
    model = BERTConfig(block=replace(SMALL, norm="post"), num_layers=2, max_length=32).build(KNOWN.vocab_size + 1)
    return Filler(model, KNOWN).answer("a red ___ saw the ___ cat")


BERT = BERTConfig(block=replace(SMALL, norm="post"), num_layers=2, max_length=64)
ANSWERS: dict[str, Callable[[], Answer]] = {
    "Transformer": translated,
    "one embedding": lambda: translated(TransformerConfig(block=SMALL, share="all")),
    "Bahdanau": lambda: translated(BahdanauConfig(embedding_dim=16, hidden_dim=16, maxout_dim=8)),
    "tags": tagged,
    "tags of a GRU": lambda: tagged(RNNEncoderConfig(hidden_dim=16)),
    "tags of pieces": lambda: tagged(BERT, pieces=True),
    "label": classified,
    "label of a GRU": lambda: classified(RNNEncoderConfig(hidden_dim=16)),
    "label of BERT": lambda: classified(BERT, pooling=FirstPoolingConfig()),
    "GPT": continued,
    "LSTM": lambda: continued(RecurrentLanguageModelConfig(embedding_dim=16, hidden_dim=16)),
    "gaps": filled,
}
each = pytest.mark.parametrize("make", ANSWERS.values(), ids=ANSWERS)


@each
def test_a_word_alone_is_left_out_as_in_a_batch(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = make()
    for way in answer.substitutes:
        whole = leave_one_out(answer, way).scores
        monkeypatch.setattr(answers, "BUDGET", 1)
        np.testing.assert_allclose(leave_one_out(answer, way).scores, whole, atol=3e-5)
        monkeypatch.undo()


@each
def test_integrated_gradients_are_complete_and_do_not_depend_on_chunks(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = make()
    within = replace(answer, visible=None)  # a language model's words include their own first pieces
    vectors = answer.vectors()
    empty = torch.where(torch.from_numpy(answer.places < 0)[:, None], vectors, torch.zeros_like(vectors))
    with torch.no_grad():
        whole, nothing = (answer.scored(each[None])[0].numpy() for each in (vectors, empty))
    np.testing.assert_allclose(whole, answer.log_probabilities()[0], atol=2e-5)
    scores = integrated_gradients(within).scores
    assert (np.abs(scores.sum(1) - (whole - nothing)) <= 0.021 * (1 + np.abs(whole - nothing))).all()
    gradients = gradient_times_input(answer).scores
    monkeypatch.setattr(answers, "BUDGET", 1)
    np.testing.assert_allclose(gradient_times_input(answer).scores, gradients, atol=1e-5)


@each
def test_answers_are_their_models_own_and_all_methods_give_every_word_a_number(make: Any) -> None:
    answer = make()
    reasons = why(answer)
    shape = len(answer.outputs), len(answer.inputs)
    assert reasons.skipped.keys() <= {"attention", "attention × norm", "rollout"}
    for attribution in reasons.attributions:
        assert attribution.scores.shape == shape
        assert np.isfinite(attribution.scores).all()
        assert (attribution.scores[~answer.possible] == 0).all()
    assert (np.array(reasons.log_probabilities) < 0).all()
    again = why(answer)
    for one, other in zip(reasons.deletions, again.deletions, strict=True):
        assert np.array_equal(one.areas, other.areas, equal_nan=True)


def test_a_word_is_left_out_of_a_translation_as_if_it_had_not_been_written() -> None:
    answer = translated()
    model, ids = answer.model, answer.row
    target = [BOS, *KNOWN.encode(" ".join(answer.outputs)), EOS] if answer.outputs else [BOS, EOS]
    scores = leave_one_out(answer).scores

    def forced(row: Sequence[int]) -> Tensor:
        with torch.no_grad():
            logits = model(Batch.of([row]), Batch.of([target])).log_softmax(-1)
        return logits[torch.arange(len(target) - 1), torch.tensor(target[1:])][: len(answer.outputs)]

    for word in range(len(answer.inputs)):
        drop = forced(ids) - forced([*ids[:word], *ids[word + 1 :]])
        np.testing.assert_allclose(scores[:, word], drop.numpy(), atol=3e-5)


class Sum(nn.Module):
    """A score that is the sum of its words' vectors, weighed."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.output = nn.Embedding(9, 4), nn.Linear(4, 2, bias=False)

    def forward(self, rows: Sequence[Sequence[int]], kept: Sequence[np.ndarray]) -> Tensor:
        batch = Batch.of(rows)
        real = torch.arange(batch.length) < batch.lengths[:, None]
        vectors = self.embedding(batch.ids)
        return self.output((vectors * real[..., None]).sum(1))


def added() -> Answer:
    model = Sum()

    def look() -> Any:
        raise AssertionError("nobody looks")

    return Answer(
        model=model, inputs=("a", "b", "c"), outputs=("y", "z"), row=(1, 5, 6, 7, 8), places=np.array([-1, 0, 1, 1, 2]),
        pieces=np.arange(2), score=model, substitutes={"remove": None}, entrance=Entrance(model.embedding), look=look,
    )  # fmt: skip


def test_in_a_sum_of_words_gradients_and_leave_one_out_are_the_same_number() -> None:
    answer = added()
    drops = leave_one_out(answer).scores
    with torch.no_grad():
        terms = answer.model.output(answer.model.embedding.weight[[5, 6, 7, 8]]).T.double().numpy()
    np.testing.assert_allclose(drops, np.stack([terms[:, 0], terms[:, 1] + terms[:, 2], terms[:, 3]], 1), atol=1e-5)
    for method in (gradient_times_input, integrated_gradients):
        np.testing.assert_allclose(method(answer).scores, drops, atol=1e-5)


def test_in_a_sum_of_words_a_deletion_curve_adds_the_drops_in_its_order() -> None:
    answer = added()
    drops = leave_one_out(answer)
    for output, curve in enumerate(deletion(answer, [drops])):
        assert curve.removed == (1, 2)
        np.testing.assert_allclose(curve.drops[0], np.sort(drops.scores[output])[::-1].cumsum()[:2], atol=3e-5)
        assert curve.areas[0] >= 0


NEAR = replace(SMALL, encoder_attention=AttentionConfig(visibility=window(left=1, right=1)))


@pytest.mark.parametrize("layers", [1, 2])
def test_a_word_out_of_sight_gets_zero_from_every_method(layers: int) -> None:
    answer = tagged(TransformerEncoderConfig(block=NEAR, num_layers=layers))
    number = np.arange(len(answer.inputs))
    far = np.abs(number[:, None] - number) > layers
    for method in METHODS:
        scores = method(answer).scores
        assert (scores[far] == 0).all(), method
        assert (scores[np.abs(number[:, None] - number) <= 1] != 0).any(), method


def test_a_language_model_is_not_moved_by_later_words() -> None:
    answer = continued()
    seeing = replace(answer, visible=None)
    later = ~answer.possible
    for method in METHODS:
        scores = method(seeing).scores
        # The row of a piece is that of the token before it, so that even without the rule nothing later has a share.
        assert (scores[later] == 0).all(), method


def test_attention_is_that_which_alignments_show() -> None:
    model = TransformerConfig(block=SMALL, encoder_layers=2, decoder_layers=3).build(*[KNOWN.vocab_size] * 2)
    translator = Translator(model, KNOWN, KNOWN)
    made = translator.forced(TEXT, "the old dog")
    shown, answer = translator.align(made).without_specials(), translator.answer(made)
    assert (answer.inputs, answer.outputs) == (shown.source, shown.target)
    np.testing.assert_allclose(attention_weights(answer).scores, shown.weights, atol=1e-6)


def test_norms_are_those_of_what_the_heads_add() -> None:
    """‖Σ_h α^h W_O^h v^h‖, whose vectors add up to the layer's output."""
    answer = classified(TransformerEncoderConfig(block=SMALL, num_layers=1), pooling=FirstPoolingConfig())
    site = answer.view.trace.sites[answer.view.site]
    layer = answer.model.get_submodule(site.name.removesuffix(".attention"))
    added = torch.zeros(site.keys, 32)
    for head in range(site.heads):
        weights = site.weights(head, slice(0, 1))[0][0]
        part = layer.output.weight.detach()[:, head * 16 : head * 16 + 16]
        added += weights[:, None] * (site.tensors["value"][head] @ part.T)
    expected = added.norm(dim=1)[answer.places >= 0] / site.heads
    np.testing.assert_allclose(attention_norms(answer).scores[0], expected.numpy(), rtol=1e-5)


def test_models_without_attention_say_so_and_are_still_asked() -> None:
    for answer in (tagged(RNNEncoderConfig(hidden_dim=8)), classified(LAYERS, pooling=MeanPoolingConfig())):
        reasons = why(answer, outputs=[0])
        assert {"attention", "attention × norm", "rollout"} == set(reasons.skipped)
        assert [attribution.method for attribution in reasons.attributions][-1] == "leave-one-out"
