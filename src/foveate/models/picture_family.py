"""The encoders of pictures that a configuration can select."""

from foveate.models.convolution import PictureCNNConfig, ResNetConfig
from foveate.models.vit import ViTConfig

PictureEncoderConfig = ViTConfig | PictureCNNConfig | ResNetConfig
"""The encoders of pictures, which embed patches by themselves: "vit", "picture_cnn", "resnet"."""
