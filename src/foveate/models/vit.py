"""ViT, a Transformer over the patches of a picture: Dosovitskiy et al. 2021."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from foveate.attention import Positions
from foveate.attention.check import require_positive
from foveate.attention.mechanism import shortest
from foveate.config.field import setting
from foveate.data.batch import Batch
from foveate.models.picture_encoder import PictureEncoder, patches_of
from foveate.nn.dropout import dropout
from foveate.nn.embed import Input, Patches, VectorEmbedding
from foveate.nn.grid_position import GridPosition, GridPositionConfig, LearnedGridConfig
from foveate.nn.packing import Packing
from foveate.nn.transformer_block import BlockConfig, EncoderBlock

DEVIATION = 0.02
"""The standard deviation of initial class tokens."""


@dataclass(frozen=True, kw_only=True)
class ViTConfig:
    """Pre-norm blocks over patches and a class token. The defaults suit small pictures, such as 28 × 28 pixels.

    >>> ViTConfig.base().block.model_dim, ViTConfig.base().num_layers
    (768, 12)
    """

    kind: ClassVar[str] = "vit"
    block: BlockConfig = BlockConfig(
        model_dim=96, num_heads=4, feedforward_dim=192, norm="pre", activation="gelu", dropout=0.0
    )
    """`block.encoder_attention` configures the attention of the layers. A rule, bias or transform on two axes counts
    the patches from the number of class tokens: "neighbourhood(columns=7, reach=1, first=1) | global_tokens(1)".
    """
    num_layers: int = 4
    position: GridPositionConfig = LearnedGridConfig()
    class_tokens: int | None = setting(
        None,
        "vectors before the patches: 1, a class token; 2, with DeiT's distillation token; none: as many as the pooling "
        '"first" reads, and 0 for other poolings',
    )
    norm_epsilon: float = 1e-6

    def __post_init__(self) -> None:
        require_positive(num_layers=self.num_layers)
        if self.class_tokens is not None and not 0 <= self.class_tokens <= 2:
            raise ValueError(f"class_tokens must be 0, 1 or 2, got {self.class_tokens}")
        if not self.norm_epsilon > 0:
            raise ValueError(f"norm_epsilon must be more than 0, got {self.norm_epsilon}")

    @classmethod
    def tiny(cls) -> "ViTConfig":
        """Twelve layers, 192 wide: the smallest DeiT, 5.7 M parameters (Touvron et al. 2021)."""
        return cls._published(192, 3)

    @classmethod
    def base(cls) -> "ViTConfig":
        """Twelve layers, 768 wide: ViT-B, 86 M parameters."""
        return cls._published(768, 12)

    @classmethod
    def _published(cls, model_dim: int, num_heads: int) -> "ViTConfig":
        block = BlockConfig(
            model_dim=model_dim, num_heads=num_heads, feedforward_dim=4 * model_dim, norm="pre", activation="gelu",
            dropout=0.0,
        )  # fmt: skip
        return cls(block=block, num_layers=12)

    @property
    def positions(self) -> int | None:
        """The largest number of patches that the attention can read beside class tokens, none where the pooling decides
        on them; None without a limit.
        """
        limit = shortest(self.block.encoder_attention)
        return None if limit is None else limit - (self.class_tokens or 0)

    def build_encoder(self, source: int | Input) -> "ViT":
        """The encoder for patches. Raises ValueError for another input, and for an attention with another grid."""
        return ViT(self, patches_of(source, "A ViT"))


class ViT(PictureEncoder):
    """z⁰ = [x_class; E v_1 + p_1; …; E v_n + p_n];  zˡ = Block_l(zˡ⁻¹);  h = LayerNorm(z^L)

    v_i are the pixels of patch i. A class token has no position vector, as it would only be added to x_class.
    A `Classifier` with the pooling "first" is the model of the paper, and one with "mean" or "attention" has no class
    token. Reference: Dosovitskiy et al. 2021, equations 1 to 4; Touvron et al. 2021 for the distillation token.
    """

    blocks: nn.ModuleList

    def __init__(self, config: ViTConfig, patches: Patches) -> None:
        super().__init__()
        self.config, self.patches, self.grid = config, patches, patches.grid
        self.class_tokens, model_dim = config.class_tokens or 0, config.block.model_dim
        require_same_grid(config.block.encoder_attention, patches.grid[1], self.class_tokens)
        self.output_dim = model_dim
        self.project = VectorEmbedding(patches.width, model_dim)
        tokens = torch.randn(self.class_tokens, model_dim) * DEVIATION
        self.class_token = nn.Parameter(tokens) if self.class_tokens else None
        self.position: GridPosition = config.position.build(model_dim, patches.grid)
        self.blocks = nn.ModuleList(EncoderBlock(config.block) for _ in range(config.num_layers))
        self.norm: nn.Module = nn.LayerNorm(model_dim) if config.block.norm == "pre" else nn.Identity()
        limit = shortest(*self.blocks)
        self.max_length = None if limit is None else limit - self.class_tokens
        for module in self.modules():
            if isinstance(module, nn.LayerNorm):
                module.eps = config.norm_epsilon

    def encode(self, batch: Batch) -> tuple[Float[Tensor, "tokens model_dim"], Packing]:
        """The vectors of class tokens and patches. Raises ValueError for patches without places, or outside the grid
        of learned positions.
        """
        if batch.places is None:
            raise ValueError("A ViT needs the places of patches, and this batch has none. Pass Row(..., places=...).")
        before, places = self.class_tokens, batch.places
        patches = Packing(batch.lengths, batch.length)
        values, at = batch.packed(patches)
        assert at is not None
        x = self.project(values)
        x = x + self.position(at).to(x.dtype)
        packing = patches
        if self.class_token is not None:
            packing = Packing(batch.lengths + before, batch.length + before)
            tokens = self.class_token.to(x.dtype).expand(batch.size, -1, -1)
            x = packing.pack(torch.cat([tokens, patches.unpack(x)], dim=1))
        x = dropout(x, self.config.block.dropout, self.training)
        here = self._positions(places, packing)
        for block in cast(Any, self.blocks):
            x = block(x, at=here, packing=packing)
        return self.norm(x), packing

    def resized(self, grid: tuple[int, int]) -> "ViT":
        """This encoder for pictures of another size in patches: learned positions are interpolated, other weights are
        copies. Raises ValueError for an attention that counts the columns of this grid.
        """
        require_same_grid(self.config.block.encoder_attention, grid[1], self.class_tokens)
        other = deepcopy(self)
        other.patches, other.grid = replace(self.patches, grid=grid), grid
        other.position = self.position.resized(grid)
        return other

    def _positions(self, places: Int[Tensor, "batch length 2"], packing: Packing) -> Positions:
        """Class tokens stand at 0, 1 …, and the patch of row r and column c after them, at r · columns + c."""
        length, standard = places.shape[1], self.standard.to(places.device)
        real = torch.arange(length, device=places.device) < (packing.lengths - self.class_tokens)[:, None]
        usual = length <= len(standard) and bool(((places == standard[:length]).all(-1) | ~real).all())
        if usual:
            at = Positions.of(packing.length, packing.length, key_lengths=packing.lengths)
            return replace(at, zeroed=True)  # unpacked projections are zero at padding
        before = torch.arange(self.class_tokens, device=places.device).expand(len(places), -1)
        patch = self.class_tokens + places[..., 0] * self.grid[1] + places[..., 1]
        place = torch.cat([before, patch], dim=1)
        known = torch.arange(packing.length, device=places.device) < packing.lengths[:, None]
        return Positions(place[:, None, :, None], place[:, None, None, :], known[:, None, None, :], zeroed=True)


def require_same_grid(attention: Any, columns: int, first: int) -> None:
    """Raise ValueError for a rule, bias or transform that counts the patches of another grid."""
    rules = _rules(getattr(attention, "visibility", None))
    for part in (*rules, *getattr(attention, "transforms", ()), getattr(attention, "bias", None)):
        own = getattr(part, "columns", None)
        if own is not None and (own, getattr(part, "first", 0)) != (columns, first):
            raise ValueError(
                f"{part} counts the patches of another grid: this one has columns={columns}, and its first patch "
                f"stands at first={first}, after as many class tokens"
            )


def _rules(rule: Any) -> Iterator[Any]:
    """A rule and all rules that it is joined of."""
    yield rule
    for part in getattr(rule, "rules", ()):
        yield from _rules(part)
