from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.data.audio import AudioReader
from foveate.data.audio_file import Clip
from foveate.data.audio_table import read_table
from foveate.data.label_track import LabelTrack
from foveate.data.tracked import Tracked
from foveate.tasks import TASKS
from foveate.tasks.length_group import FEWEST, chosen_lengths, grouped, measured_lengths
from foveate.tasks.tag.frame_side import FRAMES
from foveate.tasks.transcribe.side import SIDE
from foveate.tasks.transcribe.task import TranscribeConfig, TranscribeDataConfig

STRETCHES = [(12345.678, 12347.123), (0.1, 0.1 + 0.2), (1e-5, 7.0), (98765.4321, None)]
"""Starts and ends in seconds; six digits do not suffice for them."""


@pytest.mark.parametrize("name", TASKS)
def test_a_task_is_measured_by_what_it_has(name: str) -> None:
    side = TASKS[name].side
    assert set(TASKS[name].tests) <= set(TASKS[name].files)
    assert side.lower <= set(side.metrics())


@given(st.lists(st.integers(1, 300), min_size=1, max_size=400))
def test_every_length_is_in_one_group_and_groups_are_few(lengths: list[int]) -> None:
    groups = grouped(lengths)
    assert sorted(number for numbers in groups.values() for number in numbers) == list(range(len(lengths)))
    assert len(groups) <= 9
    ends = chosen_lengths(lengths)
    assert ends == sorted(set(ends))
    assert ends[-1] == max(lengths)


def test_groups_have_enough_examples_to_be_shown() -> None:
    groups = grouped([3] * 30 + [7] * 2 + [13] * 40 + [38])
    assert all(len(numbers) >= FEWEST for numbers in groups.values())


def test_lengths_that_are_asked_for_are_kept_and_the_rest_is_added() -> None:
    assert chosen_lengths([1, 5, 9, 30], [4, 8, 50]) == [4, 8, 30]


def test_single_words_are_measured_by_their_letters() -> None:
    assert measured_lengths(["attention", "look", "see it"]) == ([9, 4, 6], "characters")
    assert measured_lengths(["I saw", "a saw", "x"]) == ([2, 2, 1], "words")


def test_held_out_stretches_of_recordings_are_written_exactly(tmp_path: Path) -> None:
    clips = [Clip(tmp_path / "talk.flac", *stretch) for stretch in STRETCHES]
    rows = [f"talk.flac\t{clip.start!r}\t{'' if clip.end is None else repr(clip.end)}\tyes" for clip in clips * 3]
    (tmp_path / "all.tsv").write_text("\n".join(["path\tstart\tend\ttext", *rows]))
    data = TranscribeDataConfig(data=str(tmp_path / "all.tsv"), held_out=2)
    parts = SIDE.hold_out(TranscribeConfig(data=data, reader=AudioReader()), tmp_path / "out")
    examples = [one for name in parts.values() for one in read_table(str(tmp_path / "out" / name))]
    assert sorted(map(repr, (one.thing for one in examples))) == sorted(map(repr, clips * 3))
    track = LabelTrack("a.txt", ())
    lines = [FRAMES.written(Tracked(1, clip, str(tmp_path / "a.txt"), track)) for clip in clips]
    (tmp_path / "frames.tsv").write_text("".join(["path\tstart\tend\tlabel\n", *lines]))
    assert [one.thing for one in read_table(str(tmp_path / "frames.tsv"))] == clips
