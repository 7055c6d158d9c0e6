"""Units of two tokenisations have one meaning: the cases of `units.json` are those of the viewer, too (viewer/test)."""

import json
from pathlib import Path
from typing import Any

import pytest

from foveate.errors import UsageError
from foveate.inspect import Track
from foveate.inspect.text_unit import common_units

GOLDEN: list[dict[str, Any]] = json.loads((Path(__file__).parent / "units.json").read_text(encoding="utf-8"))


def track(row: dict[str, Any]) -> Track:
    return Track(labels=tuple(row["labels"]), text=row["text"], offsets=tuple(map(tuple, row["offsets"])))


@pytest.mark.parametrize("row", GOLDEN)
def test_units_are_the_stored_ones(row: dict[str, Any]) -> None:
    units = common_units(track(row["one"]), track(row["other"]), unit=row["unit"], prefix=True)
    assert list(units.texts) == row["texts"]
    assert (units.one.tolist(), units.other.tolist(), units.whole) == (row["first"], row["second"], row["whole"])
    if not row["whole"]:
        with pytest.raises(UsageError, match="read different texts"):
            common_units(track(row["one"]), track(row["other"]), unit=row["unit"])
