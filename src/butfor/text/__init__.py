"""Texts: what to test in them, how to redraw it, which classifiers to ask, and how to show what was found."""

from butfor.text.causal_lm import causal_lm
from butfor.text.explain import TextWarning, explain
from butfor.text.files import read_texts
from butfor.text.foils import PlainWords, foils, plain
from butfor.text.highlight import Marked, WordCount, marked, word_counts
from butfor.text.masked_lm import masked_lm
from butfor.text.models import huggingface_classifier, onnx_text_classifier
from butfor.text.ngram import ngram
from butfor.text.ranks import WordFit, WordRanks, fit, ranks
from butfor.text.segment import changed, replaced, sentence_spans, word_spans
from butfor.text.small import small_infiller, small_sentiment
from butfor.text.subsets import matches, phrases, sentences, spans, together, wordpieces, words, zoom

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
