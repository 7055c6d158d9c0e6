"""Translates the lines of a file on a cluster of Ray: python ray_translate.py RUN input.txt output.txt"""

import sys
from typing import Any

import ray
import ray.data

from foveate import Translator
from foveate.data.text import read_lines


class Translate:
    """A translator in a process of its own, which Ray starts."""

    def __init__(self, run: str) -> None:
        import torch

        torch.set_num_threads(1)
        self.translator = Translator.load(run)

    def __call__(self, rows: dict[str, Any]) -> dict[str, Any]:
        translations = self.translator.translate(rows["text"].tolist())
        return {"line": rows["line"], "text": [translation.text for translation in translations]}


if __name__ == "__main__":
    run, source, target = sys.argv[1:]
    lines = [{"line": number, "text": text} for number, text in enumerate(read_lines(source))]
    ray.init(num_cpus=2, include_dashboard=False)
    rows = ray.data.from_items(lines).map_batches(Translate, fn_constructor_args=(run,), batch_size=512, concurrency=2)
    answers = sorted(rows.take_all(), key=lambda row: row["line"])
    with open(target, "w", encoding="utf-8") as file:
        file.writelines(f"{row['text']}\n" for row in answers)
