"""Every efficient mechanism is one line of TOML, and some say where they cannot stand."""

import tomllib

import pytest
import torch

from foveate.attention import Positions, Visibility, causal, everything, padding
from foveate.attention.efficient import BigbirdConfig, LocalBlockConfig
from foveate.config import build, to_toml
from foveate.models import BahdanauConfig, TransformerConfig
from foveate.nn import BlockConfig, MultiHeadAttention

KINDS = (
    "linear",
    "performer",
    "linformer",
    "reformer",
    "sinkhorn",
    "synthesizer",
    "local_block",
    "sparse",
    "longformer",
    "bigbird",
)


@pytest.mark.parametrize("kind", KINDS)
def test_one_line_of_toml_chooses_it(kind: str) -> None:
    for line in (f'block.encoder_attention.kind = "{kind}"', f'block.encoder_attention = "{kind}"'):
        config = build(TransformerConfig, tomllib.loads(line))
        assert build(TransformerConfig, tomllib.loads(to_toml(config))) == config
        assert type(config.block.encoder_attention).__name__.lower() == f"{kind.replace('_', '')}config"


def test_reformer_projects_queries_and_keys_once() -> None:
    config = build(BlockConfig, {"encoder_attention": "reformer"}).encoder_attention
    attention = MultiHeadAttention(query_dim=8, num_heads=2, attention=config)
    assert attention.key is attention.query
    assert sum(parameter.numel() for parameter in attention.parameters()) == 3 * 64
    with pytest.raises(ValueError, match="uses the same vectors as queries and keys"):
        MultiHeadAttention(query_dim=8, num_heads=2, num_kv_heads=1, attention=config)


def test_patterns_compare_positions_of_one_sequence() -> None:
    with pytest.raises(ValueError, match=r"block\(32\) compares positions of one sequence"):
        LocalBlockConfig().build(query_dim=4, key_dim=4, visibility=padding(), kind="cross")


def test_random_blocks_cannot_be_drawn_from_what_is_not_written_yet() -> None:
    with pytest.raises(ValueError, match="which a decoder has not written yet"):
        BigbirdConfig().build(query_dim=4, key_dim=4, visibility=causal(), kind="self")
    x = torch.randn(1, 1, 8, 4)
    config = BigbirdConfig(block=2, random=0)
    assert config.build(query_dim=4, key_dim=4, visibility=causal(), kind="self").run(x, x, x).isfinite().all()


def test_blocks_of_the_long_range_arena_are_local_here() -> None:
    """Its reshape makes [0, 3, 6, 9] the first group of 12 positions in blocks of 4."""
    pattern = LocalBlockConfig(block=4).pattern.picture(12, 12).splitlines()
    assert pattern[0] == "# # # # . . . . . . . ."
    assert pattern[4] == ". . . . # # # # . . . ."


@pytest.mark.parametrize("kind", ["linear", "performer", "linformer"])
def test_a_mechanism_that_multiplies_queries_and_keys_names_itself_in_its_refusal(kind: str) -> None:
    """A bidirectional encoder's memory is twice as wide as its decoder."""
    config = build(BahdanauConfig, {"attention": kind, "hidden_dim": 8})
    with pytest.raises(ValueError, match=rf"(?i)^{kind}.* needs queries and keys of one width, got 8 and 16. Choose"):
        config.build(9, 9)


@pytest.mark.parametrize("rule", [everything(), padding()], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_without_examples_has_an_empty_context(kind: str, rule: Visibility) -> None:
    config = build(BlockConfig, {"encoder_attention": kind}).encoder_attention
    mechanism = config.build(query_dim=4, key_dim=4, num_heads=2, visibility=rule, kind="self")
    x, at = torch.zeros(0, 2, 5, 4), Positions.of(5, 5, key_lengths=torch.zeros(0, dtype=torch.int64))
    assert mechanism.run(x, x, x, at=at).shape == x.shape
