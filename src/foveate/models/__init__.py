"""One readable file per architecture."""

from foveate.models.bahdanau import Bahdanau, BahdanauConfig
from foveate.models.bert import BERT, BERTConfig
from foveate.models.captioner import AnyGazeConfig, Captioner, CaptionerConfig
from foveate.models.classifier import Classifier, ClassifierConfig
from foveate.models.convolution import PictureCNNConfig, ResNetConfig
from foveate.models.ensemble import Ensemble
from foveate.models.fixed_context import FixedContext, FixedContextConfig
from foveate.models.gaze import GazeConfig, GazeDecoder
from foveate.models.gpt import GPT, GPTConfig
from foveate.models.language_model import LanguageModel
from foveate.models.llama import Llama, LlamaConfig
from foveate.models.luong import Luong, LuongConfig
from foveate.models.ran_language_model import RANLanguageModel, RANLanguageModelConfig
from foveate.models.recogniser import Recogniser, RecogniserConfig
from foveate.models.recurrent_language_model import RecurrentLanguageModel, RecurrentLanguageModelConfig
from foveate.models.seq2seq import Seq2Seq
from foveate.models.speller import AnySpellerConfig, SpellerConfig, TransformerSpellerConfig
from foveate.models.tagger import Tagger, TaggerConfig
from foveate.models.transformer import Transformer, TransformerConfig
from foveate.models.vit import ViT, ViTConfig

ModelConfig = FixedContextConfig | BahdanauConfig | LuongConfig | TransformerConfig
"""The models that a configuration can name: "fixed_context", "bahdanau", "luong", "transformer"."""

LanguageModelConfig = GPTConfig | LlamaConfig | RecurrentLanguageModelConfig | RANLanguageModelConfig
"""The language models that a configuration can name: "gpt", "llama", "recurrent", "ran"."""

__all__ = [
    "BERT",
    "GPT",
    "AnyGazeConfig",
    "AnySpellerConfig",
    "BERTConfig",
    "Bahdanau",
    "BahdanauConfig",
    "Captioner",
    "CaptionerConfig",
    "Classifier",
    "ClassifierConfig",
    "Ensemble",
    "FixedContext",
    "FixedContextConfig",
    "GPTConfig",
    "GazeConfig",
    "GazeDecoder",
    "LanguageModel",
    "LanguageModelConfig",
    "Llama",
    "LlamaConfig",
    "Luong",
    "LuongConfig",
    "ModelConfig",
    "PictureCNNConfig",
    "RANLanguageModel",
    "RANLanguageModelConfig",
    "Recogniser",
    "RecogniserConfig",
    "RecurrentLanguageModel",
    "RecurrentLanguageModelConfig",
    "ResNetConfig",
    "Seq2Seq",
    "SpellerConfig",
    "Tagger",
    "TaggerConfig",
    "Transformer",
    "TransformerConfig",
    "TransformerSpellerConfig",
    "ViT",
    "ViTConfig",
]
