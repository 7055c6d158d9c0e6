from pathlib import Path

import pytest

from foveate.errors import SetupError, UsageError
from foveate.inspect import Alignment, png, svg, terminal, write


def test_the_ending_chooses_the_kind(pronunciation: Alignment, tmp_path: Path) -> None:
    contents = {
        "a.svg": svg(pronunciation, title="t").encode(),
        "a.PNG": png(pronunciation, title="t"),
        "a.txt": terminal(pronunciation).encode() + b"\n",
        "a.pharaoh": b"0-0 1-1 2-2 3-3 4-4 5-5\n",
    }
    for name, content in contents.items():
        assert write(pronunciation, tmp_path / name, title="t").read_bytes() == content


@pytest.mark.parametrize(("name", "message"), [("a.jpg", "'.jpg'"), ("a", "'a file without ending'")])
def test_other_endings_are_refused_listing_the_choices(
    name: str, message: str, pronunciation: Alignment, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=rf"not written as {message}.*\.svg.*\.png.*\.txt.*\.pharaoh"):
        write(pronunciation, tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_does_not_exist_is_named(pronunciation: Alignment, tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"nowhere/a\.svg: cannot write .*No such file"):
        write(pronunciation, tmp_path / "nowhere" / "a.svg")
