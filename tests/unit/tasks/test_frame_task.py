"""Labels and steps that are counted for taggers of frames."""

from pathlib import Path

import numpy as np

from foveate.data.feature import VectorReader
from foveate.data.tracked import TrackConfig, read_tracked
from foveate.tasks.labelling import LabelledDataConfig
from foveate.tasks.tag.frame_task import FrameVocabulary
from foveate.tasks.tag.task import TagConfig

READER = VectorReader()


def test_steps_into_a_last_silence_are_counted_written_or_not(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.ones((7, 2), np.float32))
    (tmp_path / "list.tsv").write_text("a.npy\ta.txt\n")
    path, track = str(tmp_path / "list.tsv"), TrackConfig(hop=0.01)
    config = TagConfig(data=LabelledDataConfig(data=path), reader=READER, track=track)
    for ending in ("", "0.04\t0.07\t-\n"):
        (tmp_path / "a.txt").write_text(f"0\t0.02\ta\n0.02\t0.04\tb\n{ending}")
        vocabulary = FrameVocabulary.learn(config, lambda: read_tracked(READER, path, track), None)
        assert vocabulary.labels.names == ("-", "a", "b")
        assert vocabulary.transitions.steps.tolist() == [[2, 0, 0], [0, 1, 1], [1, 0, 1]]
