import errno
import io
import json
import math
import sys
from pathlib import Path

import pytest

from foveate.errors import SetupError
from foveate.storage.manifest import DamagedError
from foveate.train import Progress, watch
from foveate.train.log import Bar, Lines, MetricsLog, Pace, Quiet, read_rows

TRAIN = {"kind": "train", "step": 50, "loss": 2.5, "learning_rate": 1e-3, "tokens_per_second": 1234.5, "seconds": 1.0}
VALID = {"kind": "valid", "step": 50, "loss": 2.25, "best": True, "seconds": 1.0}


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_reopened_log_is_cut_back_to_the_given_length(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path / "metrics.jsonl")
    log.write({"step": 1})
    length = log.position()
    log.write({"step": 2})
    log.close()
    log = MetricsLog(tmp_path / "metrics.jsonl", keep=length)
    log.write({"step": 3})
    log.close()
    assert [row["step"] for row in rows(tmp_path / "metrics.jsonl")] == [1, 3]


def test_a_log_shorter_than_remembered_is_not_filled_with_zeros(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n')
    MetricsLog(tmp_path / "metrics.jsonl", keep=1000).close()
    assert rows(tmp_path / "metrics.jsonl") == [{"step": 1}]


def test_numbers_that_json_does_not_have_become_null(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path / "metrics.jsonl")
    log.write({"loss": math.nan, "norm": math.inf})
    log.close()
    assert rows(tmp_path / "metrics.jsonl") == [{"loss": None, "norm": None}]


def test_the_display_fits_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    assert type(watch(Terminal())) is Bar
    assert type(watch(io.StringIO())) is Lines
    assert type(watch(Terminal(), quiet=True)) is Quiet
    monkeypatch.setenv("TERM", "dumb")
    assert type(watch(Terminal())) is Lines


@pytest.mark.parametrize("kind", [Quiet, Lines, Bar])
def test_every_display_offers_the_protocol(kind: type) -> None:
    assert isinstance(kind(io.StringIO()), Progress)


def test_lines_name_step_loss_speed_and_time_left() -> None:
    stream, clock = io.StringIO(), Clock()
    lines = Lines(stream, clock=clock)
    lines.begin(0, 200, None)
    clock.now += 20
    lines.row(TRAIN)
    assert "step 50/200  loss 2.500  learning rate 1.0e-03  1,234 tokens/s  1:00 left" in stream.getvalue()


def test_lines_keep_their_interval_but_never_drop_a_validation() -> None:
    stream, clock = io.StringIO(), Clock()
    lines = Lines(stream, interval=10.0, clock=clock)
    lines.begin(0, 200, None)
    for _ in range(30):
        clock.now += 1
        lines.row(TRAIN)
    assert stream.getvalue().count("\n") == 3
    lines.row(VALID)
    assert "valid  loss 2.250  best so far" in stream.getvalue()


@pytest.mark.parametrize("kind", [Lines, Bar])
def test_of_crowded_validations_the_better_ones_are_printed(kind: type[Lines] | type[Bar]) -> None:
    stream, clock = Terminal(), Clock()
    reporter = kind(stream, clock=clock)
    reporter.begin(0, 9, None)
    for step, (seconds, best) in enumerate([(0.0, False), (0.1, False), (0.1, True), (0.1, False), (1.1, False)]):
        clock.now += seconds
        reporter.row({"kind": "valid", "step": step, "loss": 1.0, "best": best})
    assert [step for step in range(5) if f"step {step}" in stream.getvalue()] == [0, 2, 4]


def test_the_bar_draws_at_most_ten_times_a_second() -> None:
    stream, clock = Terminal(), Clock()
    bar = Bar(stream, clock=clock)
    bar.begin(0, 100, None)
    for step in range(1, 101):
        clock.now += 0.01
        bar.advance(step, 1.0)
    assert 5 <= stream.getvalue().count("step") <= 11


def test_the_bar_has_colour_unless_it_is_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn() -> str:
        stream = Terminal()
        bar = Bar(stream)
        bar.begin(0, 100, None)
        bar.advance(50, 1.0)
        return stream.getvalue()

    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[36m" in drawn()
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[36m" not in drawn()
    assert "━" in drawn()


def test_the_bar_fits_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    stream = Terminal()
    bar = Bar(stream, colour=False)
    bar.begin(0, 100_000, None)
    bar.advance(50, 1.0)
    assert len(stream.getvalue().removeprefix("\r\x1b[2K")) < 60


def test_notes_stand_above_the_bar() -> None:
    stream = Terminal()
    Bar(stream).note("A sentence.")
    assert stream.getvalue() == "\r\x1b[2KA sentence.\n"


def test_the_time_left_is_the_shorter_of_steps_and_budget() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.begin(100, 300, 60.0)
    assert pace.left(100) == pytest.approx(60)
    clock.now += 10
    assert pace.left(110) == pytest.approx(50)
    assert pace.left(200) == pytest.approx(10)
    assert pace.share(200) == pytest.approx(2 / 3)


def test_a_full_disk_is_named_once(tmp_path: Path) -> None:
    class Full:
        def write(self, content: bytes) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        close = flush = lambda self: self.write(b"")

    log = MetricsLog(tmp_path / "metrics.jsonl")
    log._file.close()
    log._file = Full()  # type: ignore[assignment]
    with pytest.raises(SetupError, match="disk is full"):
        log.write({"kind": "train", "step": 1})
    log.close()


def test_the_largest_perplexity_that_training_writes_can_be_read(tmp_path: Path) -> None:
    row = {"kind": "valid", "step": 1, "loss": 7e5, "perplexity": math.exp(700.0), "largest": sys.float_info.max}
    (tmp_path / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    assert read_rows(tmp_path / "metrics.jsonl") == [row]
    (tmp_path / "metrics.jsonl").write_text(json.dumps({**row, "step": 1, "loss": 10**400}) + "\n")
    with pytest.raises(DamagedError, match="is not a row that training writes"):
        read_rows(tmp_path / "metrics.jsonl")
