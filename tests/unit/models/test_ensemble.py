"""Several models that write one translation together."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from foveate import Translator
from foveate.data.batch import Batch
from foveate.data.text import Pair
from foveate.data.tokeniser import CharacterTokeniser, LanguageTokeniser
from foveate.decode import BeamConfig, DecodeConfig, GreedyConfig, SampleConfig, decode
from foveate.errors import UsageError
from foveate.models import BahdanauConfig, Ensemble, FixedContextConfig, LuongConfig, ModelConfig, TransformerConfig
from foveate.nn import BlockConfig
from foveate.tasks.translate.alignment_head import Head
from foveate.tasks.translate.translation_flight import TranslationFlight
from foveate.tasks.word_alignment import every_head, word_alignments

TRANSFORMER = TransformerConfig(block=BlockConfig(model_dim=8, num_heads=2, feedforward_dim=8), encoder_layers=1)
KINDS: list[ModelConfig] = [
    TRANSFORMER,
    BahdanauConfig(embedding_dim=4, hidden_dim=6, maxout_dim=3),
    LuongConfig(embedding_dim=4, hidden_dim=6),
    FixedContextConfig(embedding_dim=4, hidden_dim=6),
]
TOKENISER = CharacterTokeniser.train(["abcdefg "])
SIZE = TOKENISER.vocab_size
SOURCE, TARGET = Batch.of([[4, 5, 6, 2], [7, 2]]), Batch.of([[1, 6, 5, 2], [1, 4, 4, 5, 2]])
TEXTS = ["abc", "gfe dcba", "a"]


def made(config: ModelConfig, seed: int) -> Any:
    torch.manual_seed(seed)
    model = config.build(SIZE, SIZE).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)  # so that members disagree
    return model


def translator(config: ModelConfig, seed: int) -> Translator:
    return Translator(made(config, seed), TOKENISER, TOKENISER, BeamConfig(beam=3, max_length=12))


@torch.inference_mode()
def test_the_probability_is_the_mean() -> None:
    members = [made(config, seed) for seed, config in enumerate(KINDS)]
    ensemble = Ensemble(members)
    expected = sum(member(SOURCE, TARGET).softmax(-1) for member in members) / len(members)
    torch.testing.assert_close(ensemble(SOURCE, TARGET).exp(), expected)


@torch.inference_mode()
def test_steps_give_what_the_forced_pass_gives() -> None:
    ensemble = Ensemble([made(config, seed) for seed, config in enumerate(KINDS)])
    state, rows = ensemble.start(SOURCE), []
    for token in TARGET.ids[:, :3].T:
        state, logits = ensemble.step(state, token)
        rows.append(logits)
    forced = ensemble(SOURCE, TARGET)  # three rows of the first sentence, four of the second
    torch.testing.assert_close(torch.stack(rows)[:, 0], forced[:3])
    torch.testing.assert_close(torch.stack(rows)[:, 1], forced[3:6])


@pytest.mark.parametrize(
    "config", [BeamConfig(beam=3, max_length=12), GreedyConfig(max_length=12), SampleConfig(max_length=12, seed=5)]
)
def test_a_model_with_itself_writes_what_it_writes_alone(config: DecodeConfig) -> None:
    alone = translator(TRANSFORMER, 1)
    whole = Translator.ensemble([alone, alone, alone])
    for one, other in zip(alone.translate(TEXTS, config=config), whole.translate(TEXTS, config=config), strict=True):
        assert [each.tokens for each in one.hypotheses] == [each.tokens for each in other.hypotheses]
        assert [each.score for each in one.hypotheses] == pytest.approx([each.score for each in other.hypotheses])


@torch.inference_mode()
def test_beam_search_keeps_the_states_of_all_members_with_their_rows() -> None:
    """The scores of hypotheses, which change places in every step, are those of the forced pass."""
    ensemble = Ensemble([made(config, seed) for seed, config in enumerate(KINDS)])
    config = BeamConfig(beam=3, max_length=9)
    results = decode(ensemble, ensemble.start(SOURCE, 3), sentences=2, config=config)
    for source, hypotheses in zip(([4, 5, 6, 2], [7, 2]), results, strict=True):
        for each in hypotheses:
            target = [1, *each.tokens, *([2] if each.finished else [])]
            rows = ensemble(Batch.of([source]), Batch.of([target]))
            expected = rows.gather(1, torch.tensor(target[1:])[:, None]).sum()
            assert each.log_probability == pytest.approx(float(expected), abs=1e-4)


def test_a_result_does_not_depend_on_its_neighbours() -> None:
    whole = Translator.ensemble([translator(TRANSFORMER, 1), translator(KINDS[1], 2)])
    together = whole.translate(TEXTS)
    assert [each.text for each in together] == [whole.translate(text).text for text in TEXTS]
    assert whole.score(together[1]) == pytest.approx(together[1].hypotheses[0].log_probability, abs=1e-4)


def test_an_alignment_is_the_mean_of_those_of_the_members() -> None:
    members = [translator(TRANSFORMER, seed) for seed in (1, 2)]
    whole = Translator.ensemble(members)
    translation = whole.translate(TEXTS[1])
    one, other = (member.align(translation).weights for member in members)
    assert not np.allclose(one, other)
    np.testing.assert_allclose(whole.align(translation).weights, (one + other) / 2, rtol=1e-5)


def test_each_member_aligns_by_its_own_head_unless_another_is_asked_for() -> None:
    members = [translator(TRANSFORMER, seed) for seed in (1, 2)]
    own = [Head(1, 0, "producing"), Head(2, 1, "consuming")]
    for member, head in zip(members, own, strict=True):
        member.head = head
    whole = Translator.ensemble(members)
    translation = whole.translate(TEXTS[1])
    one, other = (member.align(translation).weights for member in members)
    expected = (one[:-1] + other) / 2  # nothing consumes the last token
    np.testing.assert_allclose(whole.align(translation).weights, expected, rtol=1e-5)
    np.testing.assert_allclose(whole.align(translation, whole.head).weights, expected, rtol=1e-5)
    same = Head(0)
    one, other = (member.align(translation, same).weights for member in members)
    np.testing.assert_allclose(whole.align(translation, same).weights, (one + other) / 2, rtol=1e-5)
    members[1].head = Head(9)
    with pytest.raises(UsageError, match="Model 2 of the ensemble: There is no layer 9"):
        Translator.ensemble(members).align(translation)


def test_an_ensemble_of_ensembles_has_the_models_of_all() -> None:
    one, two, three = (translator(TRANSFORMER, seed) for seed in (1, 2, 3))
    nested, flat = Translator.ensemble([Translator.ensemble([one, two]), three]), Translator.ensemble([one, two, three])
    assert nested.models == flat.models
    assert nested.translate(TEXTS) == flat.translate(TEXTS)


def test_attention_is_that_of_one_model() -> None:
    members = [translator(TRANSFORMER, seed) for seed in (1, 2)]
    whole = Translator.ensemble(members)
    pairs = [Pair("abc", "abc", 1)]
    uses: list[Callable[[], Any]] = [
        lambda: whole.trace("abc"),
        lambda: whole.answer("abc"),
        lambda: every_head(whole),
        lambda: word_alignments(whole, pairs),
    ]
    for use in uses:
        with pytest.raises(UsageError, match="ensemble of 2 models, which has no attention of its own"):
            use()
    assert whole.attends
    assert not Translator.ensemble([members[0], translator(KINDS[3], 3)]).attends
    written = whole.translate("abc").text
    assert members[1].trace("abc", written).sites


def test_the_smallest_number_of_positions_counts() -> None:
    members = [made(TRANSFORMER, seed) for seed in (1, 2, 3)]
    members[1].max_length, members[2].max_length = 9, 7
    assert Ensemble(members).max_length == 7
    assert Ensemble(members[:1] * 2).max_length is None


def refused() -> Sequence[tuple[str, list[Translator]]]:
    alone, other = translator(TRANSFORMER, 1), translator(TRANSFORMER, 2)
    other.target_tokeniser = CharacterTokeniser.train(["hijklmn "])
    exported = translator(TRANSFORMER, 3)
    exported.engine.name = "onnx"
    return [
        ("needs two models or more, and has 0", []),
        ("needs two models or more, and has 1", [alone]),
        ("Translator 2 of the ensemble has another target tokeniser", [alone, other]),
        ("Leave out the engine onnx", [alone, exported]),
        ("writes another language than the first: fa, not de", [writing("de"), writing("fa")]),
    ]


def writing(language: str) -> Translator:
    tokeniser = LanguageTokeniser(TOKENISER, ["en-de", "en-fa"])
    torch.manual_seed(0)
    model = TRANSFORMER.build(tokeniser.vocab_size, tokeniser.vocab_size)
    return Translator(model, tokeniser, tokeniser).into(language)


@pytest.mark.parametrize(("reason", "translators"), refused(), ids=lambda value: str(value)[:30])
def test_what_cannot_be_an_ensemble_is_refused(reason: str, translators: list[Translator]) -> None:
    with pytest.raises(UsageError, match=reason):
        Translator.ensemble(translators)


def test_an_ensemble_does_not_fly() -> None:
    with pytest.raises(UsageError, match="flight"):
        TranslationFlight(Translator.ensemble([translator(TRANSFORMER, seed) for seed in (1, 2)]))


def test_members_with_vocabularies_of_other_sizes_are_refused() -> None:
    ensemble = Ensemble([KINDS[1].build(SIZE, size) for size in (SIZE, SIZE + 1)])
    with pytest.raises(UsageError, match=f"vocabularies of {SIZE} and {SIZE + 1} tokens"):
        ensemble(SOURCE, TARGET)
