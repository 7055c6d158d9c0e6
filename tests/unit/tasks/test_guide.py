"""Links between words teach attention: the loss, and what is refused."""

from pathlib import Path

import pytest
import torch

from foveate.attention import AdditiveConfig, AttentionConfig, HardConfig
from foveate.data.text import Pair
from foveate.data.tokeniser import CharacterTokeniser, WordTokeniser
from foveate.errors import DataError, UsageError
from foveate.models import BahdanauConfig, FixedContextConfig, LuongConfig, TransformerConfig
from foveate.tasks.translate.alignment_head import GuideConfig, Head
from foveate.tasks.translate.head import guidance, linked_tokens, require_guidable
from foveate.tasks.translate.pair import Links
from foveate.tasks.translate.side import SIDE
from foveate.tasks.translate.task import DataConfig, TranslateConfig, TranslateTask

WEIGHTS = torch.tensor([[[0.5, 0.25, 0.25], [0.1, 0.6, 0.3], [1.0, 0.0, 0.0]]])


def test_the_loss_is_the_cross_entropy_with_an_even_share_of_the_links() -> None:
    links = torch.tensor([[0, 1, 0], [0, 2, 0], [0, 1, 1]])
    even = -(torch.tensor(0.25).log() + torch.tensor(0.25).log()) / 2 - torch.tensor(0.6).log()
    assert guidance(WEIGHTS, links, Head()) == pytest.approx(float(even))
    assert linked_tokens(links) == 2


def test_consuming_guides_the_row_after() -> None:
    links = torch.tensor([[0, 1, 0]])
    assert guidance(WEIGHTS, links, Head(when="consuming")) == pytest.approx(-float(torch.tensor(0.6).log()))


def test_a_link_outside_of_a_window_costs_something_finite_and_teaches_nothing() -> None:
    weights = WEIGHTS.clone().requires_grad_()
    loss = guidance(weights, torch.tensor([[0, 2, 2]]), Head())
    loss.backward()
    assert loss.isfinite()
    assert weights.grad is not None
    assert not weights.grad.any()


def test_without_links_there_is_nothing_to_learn() -> None:
    assert guidance(WEIGHTS, torch.empty((0, 3), dtype=torch.long), Head()) == 0


def test_a_weight_must_be_positive() -> None:
    with pytest.raises(ValueError, match="weight must be above 0, got 0"):
        GuideConfig(weight=0.0)


def linker(*lines: str) -> Links:
    words = WordTokeniser.train(["a b", "u v w"])
    return Links(lines, "pairs.links", words, words)


def test_a_link_to_a_word_that_is_not_there_is_named_with_its_line() -> None:
    with pytest.raises(DataError, match=r"^pairs.links:2: the link 0-3 names target word 3, but there are 3, counted"):
        linker("", "0-0 0-3")(Pair(2, "a b", "u v w"), [4, 5], [6, 7, 8])
    with pytest.raises(DataError, match=r"^pairs.links:1: the link 2-0 names source word 2, but there are 2"):
        linker("2-0")(Pair(1, "a b", "u"), [4, 5], [6])


def test_an_invalid_link_is_named_with_its_line() -> None:
    with pytest.raises(DataError, match=r"^pairs.links:1: '0:1' is not a link"):
        linker("0:1")(Pair(1, "a b", "u"), [4, 5], [6])


def test_words_that_the_tokeniser_runs_together_are_named_with_their_line() -> None:
    letters = CharacterTokeniser.train(["ab"])
    with pytest.raises(DataError, match=r"^links:1: the tokeniser makes 1 words of the 2"):
        Links(["0-0"], "links", letters, letters)(Pair(1, "a b", "b"), [4], [5])


@pytest.mark.parametrize("model", [BahdanauConfig(), LuongConfig(), TransformerConfig()])
def test_soft_attention_can_be_guided(model: BahdanauConfig | LuongConfig | TransformerConfig) -> None:
    require_guidable(model.build(8, 8))


def test_drawn_attention_and_no_attention_are_refused() -> None:
    hard = AttentionConfig(score=AdditiveConfig(), normaliser=HardConfig(mode="sample"))
    with pytest.raises(UsageError, match="exact and soft"):
        require_guidable(BahdanauConfig(attention=hard).build(8, 8))
    with pytest.raises(UsageError, match="no attention to guide"):
        require_guidable(FixedContextConfig().build(8, 8))


def written(folder: Path, name: str, *lines: str) -> str:
    (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(folder / name)


def test_another_number_of_links_than_of_pairs_is_refused(tmp_path: Path) -> None:
    pairs = written(tmp_path, "pairs.tsv", *["a b\tu v"] * 12)
    data = DataConfig(source=pairs, links=written(tmp_path, "links", *["0-0"] * 11))
    with pytest.raises(DataError, match=r"links has 11 lines but there are 12 pairs"):
        TranslateTask.prepare(TranslateConfig(data=data), tmp_path / "run")


def test_links_come_from_a_column_and_reach_the_batch_as_pieces(tmp_path: Path) -> None:
    pairs = written(tmp_path, "pairs.tsv", *["ab c\tu vw\t0-1"] * 12)
    config = TranslateConfig(data=DataConfig(source=pairs, links_column=2))
    task, _ = TranslateTask.prepare(config, tmp_path / "run")
    links = task.batch(0).links
    assert links is not None
    # a, b are linked with " ", v, w: the mark of a word belongs to it.
    assert links[links[:, 0] == 0, 1:].tolist() == [[s, t] for s in (0, 1) for t in (1, 2, 3)]
    with torch.no_grad():
        assert "alignment" in task.validate()
    again = TranslateTask.open(config, tmp_path / "run").batch(0).links
    assert again is not None
    assert torch.equal(again, links)


def test_links_of_several_directions_pass_over_the_tag(tmp_path: Path) -> None:
    pairs = written(tmp_path, "pairs.tsv", *["en-up\tab c\t0-1\tu vw", "en-up\ta b\t\t中文。 "] * 6)
    config = TranslateConfig(data=DataConfig(source=pairs, direction_column=0, links_column=2))
    task, _ = TranslateTask.prepare(config, tmp_path / "run")
    batch = task.batch(0)
    assert batch.links is not None
    for row in range(batch.source.size):
        linked = batch.links[batch.links[:, 0] == row, 1:].tolist()
        # the tag, a, b, " ", c: the tag has no links, nor has a pair whose line of links is empty.
        assert linked in ([], [[s, t] for s in (1, 2) for t in (1, 2, 3)])
    assert 0 < len(batch.links) < 6 * batch.source.size


def test_links_are_given_once() -> None:
    with pytest.raises(ValueError, match="links_column is a column of one file"):
        DataConfig(source="a", links="b", links_column=2)
    with pytest.raises(ValueError, match="valid_links is given without valid_source"):
        DataConfig(source="a", valid_links="b")


def test_a_report_at_the_end_of_training_shows_the_guided_head(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("a b\tu v\n" * 12)
    data = DataConfig(source=str(tmp_path / "pairs.tsv"), held_out=2)
    config = TranslateConfig(data=data, model=TransformerConfig(), guide=GuideConfig(layer=0, head=1, when="consuming"))
    task, _ = TranslateTask.prepare(config, tmp_path / "run")
    assert SIDE.in_use(task).head == config.guide.place
