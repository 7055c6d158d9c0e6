"""Attention on data and weights in a prepared layout. These are not paths, which take padded tensors and any formula.

packed_attention   concatenated sentences, without padding
flat_block         one new position of a decoder block, from weights that were concatenated and packed once
kernel_weight      weights in the layout of the kernels
flat_step          a whole step of such a decoder, in one kernel
decoder_run        such steps as C functions, for loops outside Python
"""
