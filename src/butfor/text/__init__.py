"""Texts: subsets of them, samplers that redraw these, classifiers, and views of the results."""

from butfor.text.explain import TextWarning, explain
from butfor.text.files import read_texts
from butfor.text.foils import foils, plain
from butfor.text.language_models import causal_lm, masked_lm
from butfor.text.models import huggingface_classifier, onnx_text_classifier
from butfor.text.ngram import ngram
from butfor.text.ranks import WordRanks, ranks
from butfor.text.segment import changed, sentence_spans, word_spans
from butfor.text.small import small_infiller, small_sentiment
from butfor.text.subsets import matches, phrases, sentences, spans, wordpieces, words, zoom
from butfor.text.view import Marked, WordCount, marked, word_counts

__all__ = [
    "Marked",
    "TextWarning",
    "WordCount",
    "WordRanks",
    "causal_lm",
    "changed",
    "explain",
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
    "sentence_spans",
    "sentences",
    "small_infiller",
    "small_sentiment",
    "spans",
    "word_counts",
    "word_spans",
    "wordpieces",
    "words",
    "zoom",
]
