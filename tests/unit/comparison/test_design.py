"""What may be compared with what, and what is refused, with its reason."""

from typing import Any

import numpy as np
import pytest

from foveate.comparison import Budget, design_of
from foveate.comparison.design import folder_names, lay_over, tabled, varied
from foveate.data.tokeniser import CharacterConfig
from foveate.errors import UsageError
from foveate.models import BERTConfig
from foveate.nn.transformer_block import BlockConfig
from foveate.tasks.labelling import Pretrained

BASE = {
    "data": {"source": "pairs.tsv"},
    "model": {"kind": "luong", "hidden_dim": 8, "embedding_dim": 8},
    "train": {"steps": 20, "max_minutes": 4.0, "patience": 3},
}
SCORES = {name: {"model": {"attention": {"score": name}}} for name in ("dot", "general")}


def changed(path: str, value: Any) -> dict[str, Any]:
    change: Any = value
    for key in reversed(path.split(".")):
        change = {key: change}
    return {"one": {}, "other": change}


def test_every_variant_has_the_budget_and_nothing_that_would_end_it_before() -> None:
    design = design_of("translate", BASE, SCORES)
    for config in design.variants.values():
        assert (config.train.steps, config.train.max_minutes, config.train.patience) == (20, None, None)
    assert design.set_aside == ("train.max_minutes", "train.patience")
    assert design.cells == [("dot", 0), ("general", 0), ("dot", 1), ("general", 1), ("dot", 2), ("general", 2)]


@pytest.mark.parametrize("seeds", [range(2), (0, 1), [0, 1], np.arange(2), np.int64(2), 2])
def test_seeds_are_any_sequence_or_a_number(seeds: Any) -> None:
    assert [seed for _, seed in design_of("translate", BASE, SCORES, seeds=seeds).cells] == [0, 0, 1, 1]


def test_what_differs_is_known_by_its_path() -> None:
    design = design_of("translate", BASE, SCORES)
    assert design.changes["dot"] == {"model.attention.score.kind": "general → dot"}
    assert design.changes["general"] == {}


def test_a_budget_of_seconds_ends_by_the_clock_alone() -> None:
    design = design_of("translate", BASE, SCORES, budget="seconds=90")
    train = design.variants["dot"].train
    assert (train.max_minutes, train.steps) == (1.5, 10**9)
    cosine = {**BASE, "train": {"schedule": "cosine"}}
    with pytest.raises(UsageError, match="the schedule cosine ends with"):
        design_of("translate", cosine, SCORES, budget="seconds=90")


@pytest.mark.parametrize("words", ["steps", "steps=0", "steps=1.5", "hours=3", "tokens=-4", "steps=x", "steps=1e999"])
def test_an_invalid_budget_is_refused(words: str) -> None:
    with pytest.raises(UsageError, match="A budget is steps=N, tokens=N or seconds=N"):
        Budget.parse(words)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("data.source", "other.tsv", "variant other changes data.source .* different data"),
        ("data.max_length", 20, "variant other changes data.max_length"),
        ("train.steps", 40, r"changes train.steps \(20 → 40\): the budget, 20 steps"),
        ("train.accumulate", 2, "changes train.accumulate"),
        ("data.max_tokens", 64, "changes data.max_tokens .* the budget, 20 steps"),
        ("seed", 3, "Every variant has every seed"),
        ("model.droput", 0.1, "variant other: model.droput is not a setting. Did you mean 'dropout'"),
        ("train.metric", "blue", "variant other: train.metric must be one of"),
        (
            "train.metric",
            "alignment",
            "variant other: train.metric cannot be alignment: .* Give --links",
        ),
        ("train.steps", 20, "The variants one and other are the same"),
    ],
)
def test_a_variant_that_cannot_be_compared_is_refused(path: str, value: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        design_of("translate", BASE, changed(path, value))


def test_the_size_of_batches_may_differ_where_tokens_are_counted() -> None:
    design = design_of("translate", BASE, changed("data.max_tokens", 64), budget="tokens=500")
    assert design.variants["other"].data.max_tokens == 64


def test_models_that_keep_other_examples_are_refused() -> None:
    base = {**BASE, "model": {"kind": "transformer", "position": {"kind": "learned", "max_length": 64}}}
    with pytest.raises(UsageError, match=r"\(one: 64, other: 250\).*set data.max_length = 64"):
        design_of("translate", base, changed("model.position", "sinusoidal"))


def test_gaps_of_a_masked_language_model_are_its_data() -> None:
    base = {"data": {"text": "a.txt", "block_length": 16}, "train": {"steps": 5}}
    with pytest.raises(UsageError, match=r"changes gaps\."):
        design_of("masked_language_model", base, changed("gaps.share", 0.3))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"metrics": ["blue"]}, "not measured by 'blue'. Did you mean 'bleu'"),
        ({"seeds": [0, 0]}, "seeds must be different whole numbers"),
        ({"seeds": [-1]}, "seeds must be different whole numbers"),
        ({"seeds": 0}, "at least one"),
        ({"lengths": [4, 2]}, "lengths must rise"),
        ({"test": {"text": "a.txt"}}, "compare.test.text is not a setting. The settings are: source, target"),
        ({"test": {"target": "a.txt"}}, "compare.test.source is missing"),
        ({"test": "a.txt"}, "must be a table of files"),
        ({"budgte": "steps=3"}, "compare.budgte is not a setting. Did you mean 'budget'"),
    ],
)
def test_what_the_table_compare_cannot_hold_is_refused(settings: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        design_of("translate", {**BASE, "compare": settings}, SCORES)


def test_the_table_compare_is_a_table() -> None:
    with pytest.raises(UsageError, match="compare must be a table"):
        design_of("translate", {**BASE, "compare": 5}, SCORES)


def test_a_comparison_needs_two_variants() -> None:
    with pytest.raises(UsageError, match="give two variants at least"):
        design_of("translate", BASE, {"dot": SCORES["dot"]})
    with pytest.raises(UsageError, match="give two variants at least"):
        design_of("translate", BASE)


def test_variants_stand_in_the_file_by_name_or_as_lists_of_values() -> None:
    named = design_of("translate", {**BASE, "compare": {"seeds": 2, "variants": SCORES}})
    listed = design_of("translate", {**BASE, "compare": {"vary": {"model.attention.score": ["dot", "general"]}}})
    assert named.variants == listed.variants
    assert named.seeds == (0, 1)
    with pytest.raises(UsageError, match="both variants and vary"):
        design_of("translate", {**BASE, "compare": {"variants": SCORES, "vary": {"model.cell": ["gru", "rnn"]}}})


def test_tokens_are_not_counted_across_tokenisers() -> None:
    tokenisers = {"letters": {}, "bytes": {"target_tokeniser": {"kind": "byte"}}}
    design = design_of("translate", BASE, tokenisers)
    with pytest.raises(UsageError, match="perplexity would count different tokens"):
        design.require_comparable(("bleu", "perplexity"))
    design.require_comparable(("bleu", "chrf"))


def test_an_unknown_task_is_named() -> None:
    with pytest.raises(UsageError, match="Did you mean 'tag'"):
        design_of("tga", BASE, SCORES)


def test_a_configuration_may_name_its_task_and_no_other() -> None:
    named = {**BASE, "task": "translate"}
    assert design_of("translate", named, SCORES).variants == design_of("translate", BASE, SCORES).variants
    with pytest.raises(UsageError, match="for the task translate, not for tag"):
        design_of("tag", named, SCORES)


def test_a_pretrained_encoder_tells_its_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = BERTConfig(num_layers=1, block=BlockConfig(model_dim=8, num_heads=2))
    initial = Pretrained(encoder, CharacterConfig().train(["ab"]), {})
    monkeypatch.setattr("foveate.tasks.labelling.Pretrained.load", lambda folder: initial)
    base = {"data": {"data": "tagged.txt"}, "initialise_from": "run"}
    counts = {str(count): {"model": {"dropout": count}} for count in (0.1, 0.2)}
    design = design_of("tag", base, counts)
    assert [config.model.encoder for config in design.variants.values()] == [encoder, encoder]
    assert design.changes["0.2"] == {"model.dropout": "0.3 → 0.2"}
    of_its_own = {**base, "model": {"encoder": {"kind": "bert", "num_layers": 3}}}
    assert design_of("tag", of_its_own, counts).variants["0.1"].model.encoder.num_layers == 3


def test_a_table_with_a_kind_replaces_and_one_without_joins() -> None:
    base = {"model": {"kind": "luong", "attention": {"score": {"kind": "additive", "hidden_dim": 8}}}}
    joined = lay_over(base, {"model": {"attention": {"score": {"hidden_dim": 4}}}})
    assert joined["model"]["attention"]["score"] == {"kind": "additive", "hidden_dim": 4}
    assert lay_over(base, {"model": {"attention": {"score": "dot"}}})["model"]["attention"] == {"score": "dot"}
    assert lay_over(base, {"model": {"kind": "fixed_context"}}) == {"model": {"kind": "fixed_context"}}
    assert base["model"]["kind"] == "luong", "the base is left as it is"


def test_a_name_becomes_a_table_where_a_setting_of_it_is_changed() -> None:
    assert lay_over({"model": "luong"}, {"model": {"dropout": 0.2}}) == {"model": {"kind": "luong", "dropout": 0.2}}


def test_values_may_have_commas_inside_of_brackets_and_quotes() -> None:
    result = varied(['model={kind="luong", dropout=0.1},bahdanau'])
    assert [change["model"] for change in result.values()] == [{"kind": "luong", "dropout": 0.1}, "bahdanau"]
    assert list(varied(["train.betas=[0.9, 0.98],[0.9, 0.999]"])) == ["betas [0.9, 0.98]", "betas [0.9, 0.999]"]


def test_several_settings_make_every_combination() -> None:
    result = varied(["model.cell=gru,lstm", "model.dropout=0.0,0.1,0.2"])
    assert len(result) == 6
    assert result["lstm, dropout 0.1"] == {"model": {"cell": "lstm", "dropout": 0.1}}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("model.cell", "write a setting, = and its values"),
        ("=gru,lstm", "write a setting, = and its values"),
        ("model.cell=gru,,lstm", "there is an empty value"),
        ("model.cell=gru,gru", "'gru' twice"),
    ],
)
def test_invalid_lists_of_values_are_refused(words: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        varied([words])


def test_a_kind_does_not_undo_settings_that_come_before_it() -> None:
    result = varied(["model.hidden_dim=8,16", "model=bahdanau,luong"])
    assert list(result) == [f"hidden_dim {dim}, {kind}" for dim in (8, 16) for kind in ("bahdanau", "luong")]
    assert result["hidden_dim 8, luong"] == {"model": {"kind": "luong", "hidden_dim": 8}}


def test_folders_have_names_that_differ_and_leave_no_folder() -> None:
    folders = folder_names(["A b", "a-b", "../../etc", "注意", "Größe"])
    assert list(folders.values()) == ["a-b", "a-b-2", "etc", "variant", "gr-e"]


def test_variants_of_a_file_are_tables() -> None:
    with pytest.raises(UsageError, match="must be tables of settings by name"):
        tabled({"dot": "dot"})


def test_seeds_without_end_are_refused() -> None:
    with pytest.raises(UsageError, match=r"compare.seeds are at most 10,000 seeds, got 1,000,000,000"):
        design_of("translate", {}, {"a": {}}, seeds=1_000_000_000)
