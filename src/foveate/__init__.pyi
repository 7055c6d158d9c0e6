"""The types of what `foveate` exports: names are imported on first use, which type checkers do not see."""

from foveate.attention import Additive as Additive
from foveate.attention import Attention as Attention
from foveate.attention import AttentionRecord as AttentionRecord
from foveate.attention import Dot as Dot
from foveate.attention import General as General
from foveate.attention import Positions as Positions
from foveate.attention import ScaledDot as ScaledDot
from foveate.attention import Softmax as Softmax
from foveate.attention import Visibility as Visibility
from foveate.attention import causal as causal
from foveate.attention import everything as everything
from foveate.attention import padding as padding
from foveate.attention import record as record
from foveate.attention import window as window
from foveate.comparison import compare as compare
from foveate.inspect import Alignment as Alignment
from foveate.lesson import train_translator as train_translator
from foveate.machine import tune as tune
from foveate.models import BahdanauConfig as BahdanauConfig
from foveate.models import BERTConfig as BERTConfig
from foveate.models import FixedContextConfig as FixedContextConfig
from foveate.models import GPTConfig as GPTConfig
from foveate.models import LanguageModel as LanguageModel
from foveate.models import LuongConfig as LuongConfig
from foveate.models import RecurrentLanguageModelConfig as RecurrentLanguageModelConfig
from foveate.models import Seq2Seq as Seq2Seq
from foveate.models import TransformerConfig as TransformerConfig
from foveate.nn import MultiHeadAttention as MultiHeadAttention
from foveate.tasks.classify import ClassifyConfig as ClassifyConfig
from foveate.tasks.classify import ClassifyTask as ClassifyTask
from foveate.tasks.classify import TextClassifier as TextClassifier
from foveate.tasks.embedder import Embedder as Embedder
from foveate.tasks.filler import Filler as Filler
from foveate.tasks.generator import Generator as Generator
from foveate.tasks.language_model import LanguageModelTask as LanguageModelTask
from foveate.tasks.language_model import LanguageModelTaskConfig as LanguageModelTaskConfig
from foveate.tasks.masked_language_model import MaskedLanguageModelConfig as MaskedLanguageModelConfig
from foveate.tasks.masked_language_model import MaskedLanguageModelTask as MaskedLanguageModelTask
from foveate.tasks.tag import SentenceTagger as SentenceTagger
from foveate.tasks.tag import TagConfig as TagConfig
from foveate.tasks.tag import TagTask as TagTask
from foveate.tasks.translate import TranslateConfig as TranslateConfig
from foveate.tasks.translate import TranslateTask as TranslateTask
from foveate.tasks.translator import Translation as Translation
from foveate.tasks.translator import Translator as Translator
from foveate.tasks.word_vectors import WordVectors as WordVectors
from foveate.train import TrainConfig as TrainConfig
from foveate.train import fit as fit

__version__: str
__all__: list[str]
