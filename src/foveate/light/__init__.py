"""Translation without torch, whose import takes longer than a short answer: numpy reads the weights and computes.

weight             the numbers of a safetensors file
light_transformer  an encoder and a decoder, one sentence at a time
light_search       greedy decoding and beam search, which notice decisions that rounding could change
light_translator   a run folder in use, if nothing in it needs torch
"""
