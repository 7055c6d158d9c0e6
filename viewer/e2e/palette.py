"""Writes a screenshot as a PNG with a palette, in at most LARGEST bytes: python palette.py FROM TO."""

import io
import sys
from pathlib import Path

from PIL import Image

LARGEST = 60_000

if __name__ == "__main__":
    taken = Image.open(sys.argv[1]).convert("RGB")
    for colours in (128, 96, 64, 48, 32, 24, 16):
        file = io.BytesIO()
        fewer = taken.quantize(colours, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        fewer.save(file, "PNG", optimize=True)
        if len(file.getvalue()) <= LARGEST:
            Path(sys.argv[2]).write_bytes(file.getvalue())
            break
    else:
        raise SystemExit(f"{sys.argv[1]} needs more than {LARGEST} bytes. Show less of the page.")
