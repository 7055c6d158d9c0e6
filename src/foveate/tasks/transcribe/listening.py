"""The trace of a recogniser: its attention and CTC's path over the frames of a recording."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from foveate.data.batch import Batch
from foveate.data.row import Row
from foveate.data.tokeniser import BOS, EOS, SPECIALS, Tokeniser
from foveate.decode import occupation
from foveate.errors import UsageError
from foveate.inspect import Trace, Track
from foveate.inspect.trace import Pedigree, given
from foveate.inspect.value import observed
from foveate.models import Recogniser
from foveate.nn.ctc_loss import frames_needed
from foveate.tasks.output_track import output_track

CTC = "ctc"
"""The name of the site that shows CTC's path."""


@torch.inference_mode()
def trace_of(
    model: Recogniser, row: Row, tokens: Sequence[int], tokeniser: Tokeniser, axis: Mapping[str, Any]
) -> Trace:
    """The attention in a recording for the tokens of a transcript. `axis` are the settings of the vectors' track.

    Tracks: `source`, the outputs of the encoder, each of `stride` vectors; `read`, the decoder's input; `target`, the
    tokens that it writes. The site `ctc` has for each token and output the probability that the output belongs to the
    token, given the whole transcript.
    """
    source, target = Batch.of([row]), Batch.of([[BOS, *tokens, EOS]])
    encoded = model.encode(source)
    outputs = int(encoded.lengths[0])

    def run() -> Any:
        return model.ctc(source) if model.decoder is None else model(source, target)

    pieces = tokeniser.pieces(tokens)
    ends = [] if model.decoder is None else [SPECIALS[EOS]]
    tracks = {"source": output_track(axis, len(row), model.stride)}
    if model.decoder is not None:
        tracks["read"] = Track.of_pieces([SPECIALS[BOS], *pieces])
    if pieces or ends:  # last, as the track of a decoder's queries
        tracks["target"] = Track.of_pieces([*pieces, *ends], text=tokeniser.decode(tokens))
    trace = Trace.of(observed(model, run), tracks, pedigree=Pedigree.of(model))
    ids, counts = torch.tensor(list(tokens), dtype=torch.int64), torch.tensor([len(tokens)])
    if model.ctc_output is not None and len(tokens) and int(frames_needed(ids, counts)) <= outputs:
        weights = occupation(*model.ctc(encoded), ids, counts)[0, :, :outputs].float()
        weights = torch.cat([weights, weights.new_zeros(len(ends), outputs)])
        path = given(
            weights[None],
            name=CTC,
            kind="cross",
            tracks=("target", "source"),
            formula="p(output belongs to token | transcript)",
            posterior=True,
        )
        opens = trace.opens if model.decoder is not None else (CTC, 0)
        trace = replace(trace, sites=(*trace.sites, path), opens=opens)
    if not trace.sites:
        raise UsageError(
            "This model has no attention, and wrote nothing that CTC could align: there is nothing to look at."
        )
    return trace
