"""The search that a folder of Hugging Face asks for."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from foveate.data.tokeniser import PAD
from foveate.errors import DataError, FoveateError
from foveate.models.hugging_face_folder import number, setting
from foveate.search import Average, BeamConfig
from foveate.suggestion import listing

NEUTRAL = {
    "do_sample": False,
    "num_beam_groups": 1,
    "diversity_penalty": 0.0,
    "repetition_penalty": 1.0,
    "encoder_repetition_penalty": 1.0,
    "encoder_no_repeat_ngram_size": 0,
    "forced_bos_token_id": None,
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
    "exponential_decay_length_penalty": None,
    "force_words_ids": None,
    "constraints": None,
    "sequence_bias": None,
    "penalty_alpha": None,
}
"""Settings of a search that ours lacks, with the value that changes nothing."""


def search_of(settings: Mapping[str, Any], positions: int | None, path: Path) -> BeamConfig:
    """The search that a file of a Marian model asks for, whose lengths count the token that begins a text, too.

    Raises DataError for settings that change translations in another way than this search can.
    """
    pad = settings.get("pad_token_id")
    neutral = NEUTRAL if pad is None else {**NEUTRAL, "bad_words_ids": [[pad]]}
    others = [
        f"{name}={settings[name]!r}"
        for name, usual in neutral.items()
        if settings.get(name) not in (None, usual, [], {})
    ]
    if others:
        raise DataError(f"{path} asks for {listing(others, 3)}, which this search lacks. Remove it to do without.")
    most = max(1, setting(settings, "max_length", BeamConfig().max_length + 1) - 1)
    most = setting(settings, "max_new_tokens", most)
    least = setting(settings, "min_new_tokens", max(0, setting(settings, "min_length", 0) - 1))
    most = most if positions is None else min(most, positions)
    try:
        return BeamConfig(
            beam=setting(settings, "num_beams", 4),
            length_penalty=Average(alpha=number(settings, "length_penalty", 1.0)),
            no_repeat_ngram=setting(settings, "no_repeat_ngram_size", 0),
            min_length=least,
            max_length=most,
            forbid=(PAD,),
        )
    except FoveateError:
        raise
    except ValueError as error:
        raise DataError(f"{path} asks for a search that cannot be: {error}.") from None
