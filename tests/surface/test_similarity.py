"""The example of sentences that mean alike."""

import runpy
from pathlib import Path

import pytest
import torch

from foveate.errors import UsageError
from foveate.inspect import read_trace

EXAMPLE = Path(__file__).parents[2] / "examples" / "similarity" / "run.py"


def test_sentences_are_compared_and_the_first_can_be_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    cosines = runpy.run_path(str(EXAMPLE))["main"](["--small"])
    assert cosines.shape == (6, 6)
    torch.testing.assert_close(cosines, cosines.mT)
    assert "is nearest to" in capsys.readouterr().out
    trace = read_trace(tmp_path / "similarity.trace")
    assert trace.tracks["source"].text == "A man is riding a bicycle."
    assert trace.tracks["source"].offsets[1] == (0.0, 1.0)


def test_a_folder_of_a_user_is_not_replaced_and_one_sentence_has_no_nearest_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "thesis.txt").write_text("years of work")
    main = runpy.run_path(str(EXAMPLE))["main"]
    with pytest.raises(UsageError, match="not an earlier trace"):
        main(["--small", "A dog barks.", "--out", "notes"])
    assert (tmp_path / "notes" / "thesis.txt").read_text() == "years of work"
    assert "is nearest to" not in capsys.readouterr().out
    for _ in range(2):  # an earlier trace is replaced
        assert main(["--small", "A dog barks."]).tolist() == [[pytest.approx(1.0)]]
