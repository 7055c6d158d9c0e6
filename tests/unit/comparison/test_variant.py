import pytest

from foveate.comparison.variant import folder_names, lay_over, tabled, varied
from foveate.errors import UsageError


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
def test_what_is_no_list_of_values_is_refused(words: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        varied([words])


def test_folders_have_names_that_differ_and_leave_no_folder() -> None:
    folders = folder_names(["A b", "a-b", "../../etc", "注意", "Größe"])
    assert list(folders.values()) == ["a-b", "a-b-2", "etc", "variant", "gr-e"]


def test_variants_of_a_file_are_tables() -> None:
    with pytest.raises(UsageError, match="must be tables of settings by name"):
        tabled({"dot": "dot"})
