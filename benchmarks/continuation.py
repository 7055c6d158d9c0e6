"""Steps of a GPT: in one kernel, by its layers, and by the transformers library with the same weights.

    python benchmarks/continuation.py                       # CPU milliseconds a step, interleaved, one thread
    python benchmarks/continuation.py --sizes 2x64 4x256    # layers x width

Every row has a prompt of 8 tokens and gets as many as asked for, greedily, by sampling at temperature 1, by a nucleus
of 0.95, and by beam search with 4 hypotheses. Reading the prompt counts. The weights are random, because the time does
not depend on them, but embeddings are scaled so that a nucleus is about as small as that of a trained model.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import race

VOCAB, PROMPT = 8000, [5, 6, 7, 8, 9, 10, 11, 12]
BEAM = 4
DRAWN = ("sample", "nucleus")
"""Searches whose noise the library draws in its own way."""


def searches(length: int) -> dict[str, tuple[Any, dict[str, Any]]]:
    """Our settings of each search, and those of the library."""
    from foveate.decode import BeamConfig, GreedyConfig, SampleConfig

    ours = {"max_length": length, "forbid": (0,)}
    return {
        "greedy": (GreedyConfig(**ours), {"do_sample": False}),
        "sample": (SampleConfig(**ours), {"do_sample": True, "top_k": 0}),
        "nucleus": (SampleConfig(**ours, top_p=0.95), {"do_sample": True, "top_k": 0, "top_p": 0.95}),
        "beam": (BeamConfig(**ours, beam=BEAM), {"do_sample": False, "num_beams": BEAM, "early_stopping": False}),
    }


def models(layers: int, width: int) -> tuple[Any, Any]:
    """Our model, and the library's with the same weights."""
    import torch
    from transformers import GPT2LMHeadModel

    from foveate.models import GPTConfig
    from foveate.models.gpt2_hugging_face import write_gpt2
    from foveate.nn import BlockConfig, LearnedConfig

    torch.manual_seed(0)
    block = BlockConfig(
        model_dim=width,
        num_heads=max(width // 64, 4),
        feedforward_dim=4 * width,
        norm="pre",
        activation="gelu_tanh",
    )
    config = GPTConfig(block=block, num_layers=layers, position=LearnedConfig(max_length=512))
    model = config.build(VOCAB).eval()
    with torch.no_grad():
        model.embedding.weight.mul_(20.0)
    with tempfile.TemporaryDirectory() as folder:
        write_gpt2(model, f"{folder}/model", end=0)
        theirs = GPT2LMHeadModel.from_pretrained(f"{folder}/model").eval()
    return model, theirs


def manners(model: Any, theirs: Any, rows: int, length: int, search: str) -> dict[str, Callable[[], Any]]:
    """Each way to get the tokens of all rows."""
    import torch

    from foveate.data.batch import Batch
    from foveate.decode import beam_size, decode

    config, options = searches(length)[search]
    ids = torch.tensor([PROMPT] * rows)

    def ours(*, kernel: bool) -> list[tuple[int, ...]]:
        state = model.start(Batch.of([PROMPT[:-1]] * rows), beam_size(config))
        if not kernel:
            state = type(state)(state.pasts, state.clock)
        groups = decode(model, state, sentences=rows, config=config, begin=PROMPT[-1], end=0)
        return [best[0].tokens for best in groups]

    def library() -> list[tuple[int, ...]]:
        whole = theirs.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=length,
            min_new_tokens=length,
            pad_token_id=0,
            eos_token_id=0,
            suppress_tokens=[0],
            **options,
        )
        return [tuple(row) for row in whole[:, len(PROMPT) :].tolist()]

    return {"kernel": lambda: ours(kernel=True), "layers": lambda: ours(kernel=False), "transformers": library}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="*", default=["2x64", "6x384", "12x768"])
    parser.add_argument("--rows", type=int, nargs="*", default=[1, 8, 32])
    parser.add_argument("--length", type=int, default=32, help="tokens of each continuation")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0, help="a cell is measured once if it takes longer")
    arguments = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    results = []
    print("| layers x width | rows | search | kernel, ms a step | layers | transformers | the kernel's tokens by |")
    print("|---|---|---|---|---|---|---|")
    for size in arguments.sizes:
        model, theirs = models(*map(int, size.split("x")))
        for rows in arguments.rows:
            for search in searches(1):
                ways = manners(model, theirs, rows, arguments.length, search)
                times: dict[str, list[float]] = {name: [] for name in ways}
                tokens = dict[str, Any]()
                started = time.perf_counter()
                with torch.no_grad():
                    while len(times["kernel"]) < arguments.repeats:
                        for name, way in ways.items():
                            begin = time.thread_time()
                            tokens[name] = way()
                            times[name].append((time.thread_time() - begin) / arguments.length * 1e3)
                        if time.perf_counter() - started > arguments.seconds:
                            break
                middle = {name: statistics.median(each) for name, each in times.items()}
                compared = ("layers",) if search in DRAWN else ("layers", "transformers")
                same = {name: tokens[name] == tokens["kernel"] for name in compared}
                results.append({"size": size, "rows": rows, "search": search, "ms": times, "same": same})
                alike = ", ".join(name for name, each in same.items() if each) or "none"
                cells = " | ".join(f"{middle[name]:.2f}" for name in ways)
                print(f"| {size} | {rows} | {search} | {cells} | {alike} |", flush=True)
    whole = {"machine": race.machine(1), "settings": race.settings(arguments), "results": results}
    print(f"kept in {race.save('continuation', whole)}")


if __name__ == "__main__":
    main()
