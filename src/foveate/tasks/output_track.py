"""The track of an encoder's outputs, where one output stands for several vectors."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from foveate.inspect import Track


def output_track(axis: Mapping[str, Any], vectors: int, stride: int) -> Track:
    """The track of the ⌈vectors / stride⌉ outputs, from the settings of that of the vectors. The last output may stand
    for fewer vectors; picture and sound are then filled up.
    """
    outputs = -(-vectors // stride)
    missing = outputs * stride - vectors
    hop = axis.get("hop")
    labels = [f"{output * hop * stride:.2f} s" if hop else str(output * stride) for output in range(outputs)]
    settings: dict[str, Any] = {**axis, "labels": tuple(labels), "hop": None if hop is None else hop * stride}
    picture, sound = axis.get("picture"), axis.get("sound")
    if picture is not None and vectors:
        beside = round(missing * picture.shape[1] / vectors)
        settings["picture"] = np.pad(picture, ((0, 0), (0, beside)))
    if sound is not None and vectors:
        samples = np.pad(sound.samples, (0, round(missing * len(sound.samples) / vectors)))
        settings["sound"] = replace(sound, samples=samples)
    return Track.of_settings(settings)
