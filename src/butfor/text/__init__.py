"""Texts: what to test in them, how to redraw it, which classifiers to ask, and how to show what was found."""

from butfor.text.causal_lm import causal_lm
from butfor.text.edit import changed, replaced
from butfor.text.explain import explain
from butfor.text.files import read_texts
from butfor.text.foils import foils
from butfor.text.items import TextWarning
from butfor.text.masked_lm import masked_lm
from butfor.text.models import huggingface_classifier
from butfor.text.ngram import ngram
from butfor.text.onnx_classifier import onnx_text_classifier
from butfor.text.phrases import phrases
from butfor.text.plain import PlainWords, plain
from butfor.text.ranks import WordFit, WordRanks, fit, ranks
from butfor.text.segment import sentence_spans, word_spans
from butfor.text.small_infiller import small_infiller
from butfor.text.small_sentiment import small_sentiment
from butfor.text.spans import spans
from butfor.text.subsets import together
from butfor.text.terminal import Marked, marked
from butfor.text.word_counts import WordCount, word_counts
from butfor.text.words import matches, sentences, wordpieces, words
from butfor.text.zoom import zoom

__all__ = [
    "Marked",
    "PlainWords",
    "TextWarning",
    "WordCount",
    "WordFit",
    "WordRanks",
    "causal_lm",
    "changed",
    "explain",
    "fit",
    "foils",
    "huggingface_classifier",
    "marked",
    "masked_lm",
    "matches",
    "ngram",
    "onnx_text_classifier",
    "phrases",
    "plain",
    "ranks",
    "read_texts",
    "replaced",
    "sentence_spans",
    "sentences",
    "small_infiller",
    "small_sentiment",
    "spans",
    "together",
    "word_counts",
    "word_spans",
    "wordpieces",
    "words",
    "zoom",
]
