"""Configuration: plain data becomes frozen dataclasses and back, with messages that say where, what and what to try."""

import json
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

import pytest

from foveate.config import build, kind_of, override, read_toml, require_choices, setting, to_dict, to_toml
from foveate.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class ScaledDot:
    pass


@dataclass(frozen=True, kw_only=True)
class AdditiveConfig:
    hidden_dim: int = setting(64, "width of the hidden layer")


@dataclass(frozen=True, kw_only=True)
class Named:
    kind: ClassVar[str] = "another_name"


@dataclass(frozen=True, kw_only=True)
class Model:
    score: ScaledDot | AdditiveConfig | Named = setting(AdditiveConfig(hidden_dim=32), "how queries meet keys")
    cell: Literal["gru", "lstm"] = "gru"
    """The recurrent cell."""
    dropout: float = 0.1
    num_layers: int = 1

    def __post_init__(self) -> None:
        if self.num_layers < 1:
            raise ValueError(f"num_layers must be at least 1, got {self.num_layers}")
        if self.dropout > 0.9:
            raise ValueError("so much dropout leaves nothing")


@dataclass(frozen=True, kw_only=True)
class Run:
    steps: int
    model: Model = field(default_factory=Model)
    bias: bool = True
    source: str = ""
    patience: int | None = None
    limit: int | None = 7
    betas: tuple[float, float] = (0.9, 0.98)
    files: tuple[str, ...] = ()
    penalty: ScaledDot | AdditiveConfig | None = None
    layers: tuple[ScaledDot | AdditiveConfig, ...] = ()
    width: int | Literal["auto"] = "auto"


def refusal(mapping: dict[str, object], **options: object) -> str:
    with pytest.raises(UsageError) as caught:
        build(Run, {"steps": 1, **mapping}, **options)
    return str(caught.value)


def test_nested_tables_become_nested_dataclasses() -> None:
    run = build(Run, {"steps": 3, "model": {"score": {"kind": "scaled_dot"}, "cell": "lstm"}, "betas": [0, 1]})
    assert run == Run(steps=3, model=Model(score=ScaledDot(), cell="lstm"), betas=(0.0, 1.0))
    assert isinstance(run.betas[0], float)


def test_a_kind_is_the_class_name_in_snake_case_unless_the_class_names_itself() -> None:
    class RNNConfig:
        pass

    class BiGRUConfig:
        pass

    kinds = [kind_of(cls) for cls in (ScaledDot, AdditiveConfig, RNNConfig, BiGRUConfig, Named)]
    assert kinds == ["scaled_dot", "additive", "rnn", "bi_gru", "another_name"]


def test_a_kind_alone_stands_for_its_table() -> None:
    assert build(Run, {"steps": 1, "model": {"score": "another_name"}}).model.score == Named()


def test_without_a_kind_the_default_keeps_its_class_and_its_other_settings() -> None:
    assert build(Model, {"score": {}}).score == AdditiveConfig(hidden_dim=32)
    assert build(Model, {"score": {"hidden_dim": 5}}).score == AdditiveConfig(hidden_dim=5)
    assert build(Model, {"score": {"kind": "additive"}}).score == AdditiveConfig(hidden_dim=32)


def test_none_is_null_or_the_word_none() -> None:
    assert build(Run, {"steps": 1, "limit": None}).limit is build(Run, {"steps": 1, "limit": "none"}).limit is None


def test_unions_of_values_take_each_of_them() -> None:
    assert build(Run, {"steps": 1, "width": 8}).width == 8
    assert refusal({"width": "narrow"}) == 'width must be a whole number or "auto", got "narrow".'


@dataclass(frozen=True, kw_only=True)
class NoParts:
    kind: ClassVar[str] = "none"


@dataclass(frozen=True, kw_only=True)
class Table:
    size: int = 3


@dataclass(frozen=True, kw_only=True)
class Kinds:
    part: NoParts | Table = Table()
    other: NoParts | Table | Literal["same"] = "same"
    perhaps: Table | None = None


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"part": None}, Kinds(part=NoParts())),
        ({"part": "none"}, Kinds(part=NoParts())),
        ({"part": {"kind": None}}, Kinds(part=NoParts())),
        ({"other": "table"}, Kinds(other=Table())),
        ({"other": {"kind": "table", "size": 4}}, Kinds(other=Table(size=4))),
        ({"other": "same"}, Kinds()),
        ({"perhaps": "table"}, Kinds(perhaps=Table())),
        ({"perhaps": {"kind": "table", "size": 4}}, Kinds(perhaps=Table(size=4))),
        ({"perhaps": None}, Kinds()),
    ],
)
def test_the_name_of_a_kind_is_enough_beside_other_values(settings: dict, expected: Kinds) -> None:
    assert build(Kinds, settings) == expected


def test_a_wrong_kind_is_named_with_all_that_could_stand_there() -> None:
    with pytest.raises(UsageError, match=r'^other.kind cannot be "tabel". Did you mean .table.\? Choose one of: '):
        build(Kinds, {"other": "tabel"})
    with pytest.raises(UsageError, match=r'Choose one of: "none", "table", "same"\.$'):
        build(Kinds, {"other": "tabel"})
    with pytest.raises(UsageError, match=r'^perhaps must be a table of settings, got "tabel"'):
        build(Kinds, {"perhaps": "tabel"})


def test_an_unknown_key_gets_its_path_a_suggestion_and_the_list() -> None:
    assert refusal({"model": {"droput": 0.2}}) == (
        "model.droput is not a setting. Did you mean 'dropout'? The settings are: score, cell, dropout, num_layers."
    )
    assert refusal({"model": {"score": {"kind": "scaled_dot", "size": 1}}}) == (
        "model.score.size is not a setting. It does not have settings."
    )


def test_a_setting_of_a_table_inside_is_named_with_its_path() -> None:
    inside = "model.hidden_dim is not a setting. Did you mean model.score.hidden_dim?"
    assert refusal({"model": {"hidden_dim": 3}}).startswith(inside)
    assert refusal({"model": {"hidden_dim": 3}}, where="run.toml:").startswith(f"run.toml: {inside}")
    assert refusal({"model": {"score": {"kind": "additive"}, "hidden_dim": 3}}).startswith(inside)
    assert "Did you mean model.dropout?" in refusal({"dropout": 0.1})
    # Not where the kind that is chosen has none of this name.
    assert "Did you mean" not in refusal({"model": {"score": "scaled_dot", "hidden_dim": 3}})


def test_an_unknown_kind_gets_a_suggestion_and_the_list() -> None:
    assert refusal({"model": {"score": {"kind": "aditive"}}}) == (
        "model.score.kind cannot be \"aditive\". Did you mean 'additive'? "
        'Choose one of: "scaled_dot", "additive", "another_name".'
    )
    assert refusal({"penalty": {}}) == 'penalty.kind is missing. Choose one of: "scaled_dot", "additive".'


@pytest.mark.parametrize(
    ("mapping", "sentence"),
    [
        ({"steps": "many"}, 'steps must be a whole number, got "many".'),
        ({"steps": 1.0}, "steps must be a whole number, got 1.0."),
        ({"steps": True}, "steps must be a whole number, got true."),
        ({"bias": 1}, "bias must be true or false, got 1."),
        ({"source": 2024}, 'source must be text, got 2024. Write it in quotes: "2024".'),
        ({"model": {"dropout": False}}, "model.dropout must be a number, got false."),
        ({"model": {"dropout": float("nan")}}, "model.dropout must be a finite number, got nan."),
        (
            {"model": {"cell": "gruu"}},
            'model.cell cannot be "gruu". Did you mean \'gru\'? Choose one of: "gru", "lstm".',
        ),
        ({"model": 3}, "model must be a table of settings, got 3."),
        (
            {"model": "additive"},
            'model must be a table of settings, got "additive". Did you mean model.score=additive? This table does '
            "not have kinds, but its parts do: model.score (scaled_dot, additive, another_name).",
        ),
        (
            {"model": "transformer"},
            'model must be a table of settings, got "transformer". This table does not have kinds, but its parts do: '
            "model.score (scaled_dot, additive, another_name).",
        ),
        (
            {"model": {"kind": "scaled_dot"}},
            "model.kind is not a setting. Did you mean model.score=scaled_dot? This table does not have kinds, but its "
            "parts do: model.score (scaled_dot, additive, another_name).",
        ),
        ({"betas": 0.9}, "betas must be a list, got 0.9."),
        ({"betas": [0.9]}, "betas must be a list of 2, got 1: [0.9]."),
        ({"files": ["a", 1]}, 'files[1] must be text, got 1. Write it in quotes: "1".'),
        ({"patience": [3]}, "patience must be a whole number, got [3]."),
        ({"model": {"num_layers": 0}}, "model.num_layers must be at least 1, got 0."),
        ({"model": {"dropout": 1}}, "model: so much dropout leaves nothing."),
    ],
)
def test_a_wrong_value_is_named_with_what_was_expected_and_what_was_given(mapping: dict, sentence: str) -> None:
    assert refusal(mapping) == sentence


def test_a_missing_setting_is_named() -> None:
    with pytest.raises(UsageError, match=r"^train\.steps is missing\. Give it a value\.$"):
        build(Run, {}, where="train")


def test_a_place_can_stand_before_the_path() -> None:
    assert refusal({"stesp": 1}, where="run.toml:").startswith(
        "run.toml: stesp is not a setting. Did you mean 'steps'?"
    )


def test_a_class_of_the_user_is_imported_only_when_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "score_of_mine.py").write_text(
        "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass Mine:\n    size: int = 1\nwrong = 3\n"
    )
    monkeypatch.chdir(tmp_path)
    mapping = {"model": {"score": {"kind": "score_of_mine:Mine", "size": 2}}}
    assert refusal(mapping) == (
        "model.score.kind: 'score_of_mine:Mine' names a class to import, which runs its code. Your TOML files "
        "and --set may do that, but not a checkpoint or a request. "
        "If you trust that module, add --import score_of_mine to the command, "
        "or in Python load the run within `with foveate.config.permit('score_of_mine'):`."
    )
    assert "score_of_mine" not in sys.modules
    run = build(Run, {"steps": 1, **mapping}, imports=True)
    assert run.model.score.size == 2
    assert to_dict(run)["model"]["score"] == {"kind": "score_of_mine:Mine", "size": 2}
    assert refusal({"penalty": "score_of_mine:Yours"}, imports=True) == (
        "penalty.kind: the module 'score_of_mine' has no 'Yours'."
    )
    assert refusal({"penalty": "score_of_mine:wrong"}, imports=True) == (
        "penalty.kind: 'score_of_mine:wrong' is not a dataclass. Decorate it with @dataclass(frozen=True, "
        "kw_only=True)."
    )
    assert refusal({"penalty": "score_of_yours:Mine"}, imports=True) == (
        "penalty.kind: cannot import 'score_of_yours' (No module named 'score_of_yours'). Run from the folder that "
        "contains score_of_yours.py, or install it."
    )


RICH = Run(
    steps=5,
    model=Model(score=ScaledDot(), cell="lstm", dropout=1e-5),
    bias=False,
    source='a "quoted"\\path\n\x7fйö😀',
    patience=3,
    limit=None,
    files=("a", "b"),
    penalty=AdditiveConfig(hidden_dim=9),
    layers=(ScaledDot(), AdditiveConfig()),
)


@pytest.mark.parametrize("run", [Run(steps=1), RICH])
def test_plain_data_and_toml_make_an_equal_configuration(run: Run) -> None:
    assert build(Run, json.loads(json.dumps(to_dict(run)))) == run
    for comments in (True, False):
        assert build(Run, tomllib.loads(to_toml(run, comments=comments))) == run


def test_toml_explains_itself() -> None:
    assert to_toml(Model()) == (
        '# The recurrent cell; one of "gru", "lstm"\n'
        'cell = "gru"\n'
        "dropout = 0.1\n"
        "num_layers = 1\n"
        "\n"
        "# how queries meet keys\n"
        "[score]\n"
        '# one of "scaled_dot", "additive", "another_name"\n'
        'kind = "additive"\n'
        "# width of the hidden layer\n"
        "hidden_dim = 32\n"
    )


def test_assignments_are_read_as_toml_or_as_text() -> None:
    assert override(
        {"model": {"cell": "gru"}, "limit": 3},
        [
            "model.cell=lstm",
            "model.dropout=0.5",
            "limit=none",
            'source="a=b"',
            "files=[1, 'x']",
            "a.b.c=true",
            "day=2024-01-02",
        ],
    ) == {
        "model": {"cell": "lstm", "dropout": 0.5},
        "limit": None,
        "source": "a=b",
        "files": [1, "x"],
        "a": {"b": {"c": True}},
        "day": "2024-01-02",
    }


def test_assignments_leave_the_given_data_alone() -> None:
    values = {"model": {"cell": "gru"}}
    override(values, ["model.cell=lstm"])
    assert values == {"model": {"cell": "gru"}}


def test_an_assignment_cannot_smuggle_in_others() -> None:
    assert override({}, ["a=1\nb=2"]) == {"a": "1\nb=2"}


@pytest.mark.parametrize(
    ("assignment", "sentence"),
    [
        ("steps", "--set steps: write a dotted name, = and a value, like train.steps=2000."),
        ("a..b=1", "--set a..b=1: write a dotted name, = and a value, like train.steps=2000."),
        ("seed.x=1", "--set seed.x=1: seed is 4, not a table of settings."),
    ],
)
def test_a_wrong_assignment_is_named(assignment: str, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        override({"seed": 4}, [assignment])
    assert str(caught.value) == sentence


def test_a_missing_toml_file_gets_the_nearest_names(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text("a = 1\n")
    assert read_toml(tmp_path / "run.toml") == {"a": 1}
    with pytest.raises(UsageError) as caught:
        read_toml(tmp_path / "rum.toml")
    assert str(caught.value) == f"{tmp_path}/rum.toml: there is no such file. Similar names are: run.toml."
    with pytest.raises(UsageError) as caught:
        read_toml(tmp_path / "configs" / "de" / "run.toml")
    assert str(caught.value) == (
        f"{tmp_path}/configs/de/run.toml: there is no such file, and its folder is missing too; {tmp_path} exists."
    )


def test_a_broken_toml_file_is_named_with_the_place(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text("a = 1\nb = gru\n")
    with pytest.raises(UsageError) as caught:
        read_toml(path)
    assert str(caught.value) == (
        f"{path} is not TOML: Invalid value (at line 2, column 5). Text needs quotes; true and false are lower-case."
    )
    path.write_bytes(b"a = 1\nb = '\xe9'\n")
    with pytest.raises(UsageError) as caught:
        read_toml(path)
    assert str(caught.value) == f"{path}:2: byte 11 is not UTF-8. Save the file as UTF-8."


def test_a_toml_file_of_windows_is_read(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_bytes(b"\xef\xbb\xbfa = 1\r\n[b]\r\nc = 'd'\r\n")
    assert read_toml(tmp_path / "run.toml") == {"a": 1, "b": {"c": "d"}}


@dataclass(frozen=True, kw_only=True)
class Ordered:
    order: Literal["rising", "falling"] = "rising"

    def __post_init__(self) -> None:
        require_choices(self)


def test_a_subclass_with_types_that_only_a_type_checker_knows_has_the_choices_of_its_base() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Budgeted(Ordered):
        budget: "Money | None" = None

    config = object.__new__(Budgeted)  # the constructor has its types checked in tests, and nowhere else
    object.__setattr__(config, "order", "falling")
    config.__post_init__()
    object.__setattr__(config, "order", "fallin")
    with pytest.raises(ValueError, match="order cannot be 'fallin'"):
        config.__post_init__()
