"""Attention on data that is laid out for it in advance: no paths, for a path takes padded tensors and any formula.

packed_attention   sentences one after the other, without padding
flat_block         one new position of a decoder block, from weights that were joined and packed once
flat_step          a whole step of such a decoder in one kernel
"""
