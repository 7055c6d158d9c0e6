"""A convolution over planes that is right for narrow ones, too."""

from torch import Tensor, nn
from torch.nn.functional import pad

from foveate.nn.precision import in_bfloat16

NARROW = 3
"""Planes of fewer columns are widened."""


class PlaneConvolution(nn.Conv2d):
    """torch's convolution, whose bfloat16 kernels on the CPU get a few more columns of zeros for narrow planes.

    With a stride, torch 2.13 reads memory behind a plane of one or two columns on processors with AMX, in the output or
    in the gradient, and answers NaN where that memory has it. The other columns of the output are cut off.
    """

    def forward(self, input: Tensor) -> Tensor:
        columns = input.shape[-1]
        if columns >= NARROW or max(self.stride) == 1 or not in_bfloat16(input):
            return super().forward(input)
        size, stride, margin = self.kernel_size[1], self.stride[1], int(self.padding[1])
        return super().forward(pad(input, (0, NARROW - columns)))[..., : (columns + 2 * margin - size) // stride + 1]
