"""Classifiers of texts: order kept whatever the lengths, nothing cut, one sentence for what cannot be."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import butfor.models
import butfor.text as bt
from butfor import InputError
from butfor.text import models
from butfor.text import small as network
from butfor.text.models import text_model

TEXTS = [
    "the film was good",
    "bad",
    "",
    "a terrible ending ! what a waste of time",
    "👍🏽 好",
    "It was " * 12,
    "\ud800 x",
]


def reference(folder, text):
    import torch
    import transformers

    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        encoded = tokenizer(text.replace("\ud800", "\ufffd"), return_tensors="pt")
        return torch.softmax(model(**encoded).logits, 1)[0].numpy()


def test_small_sentiment_answers_in_order_and_to_anything():
    model = bt.small_sentiment(threads=1)
    texts = [*TEXTS, "A wonderful film!", "An awful mess. " * 300, "x" * 5000, "[MASK] [PAD] <br />"] * 3
    together = model(texts)
    alone = np.array([model([text])[0] for text in texts])
    assert together.dtype == np.float32
    np.testing.assert_allclose(together, alone, atol=2e-6)
    assert ((together >= 0) & (together <= 1)).all()
    assert together[7] > 0.8 > 0.2 > together[8]
    assert model([]).shape == (0,)
    assert repr(pickle.loads(pickle.dumps(model))) == "small_sentiment()"
    with pytest.raises(InputError, match="texts must be strings, got int"):
        model([3])


def test_hugging_face_classifier_by_folder_pipeline_and_parts(tiny, monkeypatch):
    import transformers

    folder = tiny / "classifier"
    expected = np.array([reference(folder, text) for text in TEXTS])
    pipeline = transformers.pipeline("text-classification", model=str(folder), device="cpu")
    wrapped = butfor.models.hugging_face(pipeline)
    for pieces in (8, 40, 10**6):  # one text at a time, a few, all at once
        monkeypatch.setattr(models, "BATCH_PIECES", pieces)
        for given in (
            str(folder),
            folder,
            pipeline,
            wrapped,
            bt.huggingface_classifier(pipeline.model, pipeline.tokenizer),
        ):
            model = text_model(given)
            np.testing.assert_allclose(model(TEXTS), expected, atol=1e-5)
            assert model.classes == ("negative", "neutral", "positive")
    logits = bt.huggingface_classifier(folder, function="none")(TEXTS)
    np.testing.assert_allclose(np.exp(logits) / np.exp(logits).sum(1, keepdims=True), expected, atol=1e-5)
    with pytest.raises(InputError, match="without its tokenizer"):
        text_model(pipeline.model)
    with pytest.raises(InputError, match="expected a model for sequence classification"):
        text_model(str(tiny / "bert"))([""])
    with pytest.raises(InputError, match="cannot be loaded"):
        text_model(str(tiny / "nowhere"))
    with pytest.raises(InputError, match="expected text-classification"):
        text_model(transformers.pipeline("fill-mask", model=str(tiny / "bert"), device="cpu"))


def test_a_text_that_is_too_long_is_refused_or_cut_when_asked(tiny):
    model, long = bt.huggingface_classifier(tiny / "classifier"), "film " * 60
    assert "62 pieces and the model takes at most 40" in model.unfit(long)
    assert model.unfit("film " * 38) is None
    with pytest.raises(InputError, match="62 pieces and the model takes at most 40"):
        model(["film", long])
    cut = bt.huggingface_classifier(tiny / "classifier", truncate=True)
    assert cut.unfit(long) is None
    np.testing.assert_allclose(cut([long]), model(["film " * 38]), atol=1e-6)


def test_onnx_with_a_tokenizer(tmp_path):
    model = bt.onnx_text_classifier(write_bag(tmp_path), models_tokenizer(), classes=["pieces", "twice"], limit=50)
    expected = [len(models_tokenizer().encode(text, add_special_tokens=False).ids) for text in TEXTS[:4]]
    answers = model(TEXTS[:4])
    np.testing.assert_allclose(answers[:, 0], expected)
    np.testing.assert_allclose(answers[:, 1], 2 * np.array(expected))
    assert text_model(model).classes == ("pieces", "twice")
    assert repr(pickle.loads(pickle.dumps(model.path))) == repr(model.path)
    with pytest.raises(InputError, match="60 pieces and the model takes at most 50"):
        model(["film " * 60])
    assert "at most 50" in model.unfit("film " * 60)
    (tmp_path / "broken.onnx").write_bytes(b"no network")
    with pytest.raises(InputError, match="not an ONNX file"):
        bt.onnx_text_classifier(tmp_path / "broken.onnx", models_tokenizer())
    with pytest.raises(InputError, match="function must be"):
        bt.onnx_text_classifier(tmp_path / "bag.onnx", models_tokenizer(), function="tanh")


def models_tokenizer():
    from butfor.text.small import tokenizer

    return tokenizer()


def write_bag(folder):
    """A network that counts the pieces it may look at."""
    onnx = pytest.importorskip("onnx")
    helper, kinds = onnx.helper, onnx.TensorProto
    nodes = [
        helper.make_node("Cast", ["attention_mask"], ["seen"], to=kinds.FLOAT),
        helper.make_node("Cast", ["input_ids"], ["ids"], to=kinds.FLOAT),
        helper.make_node("Mul", ["ids", "zero"], ["nothing"]),
        helper.make_node("Add", ["seen", "nothing"], ["ones"]),
        helper.make_node("ReduceSum", ["ones", "axis"], ["count"], keepdims=1),
        helper.make_node("Add", ["count", "count"], ["twice"]),
        helper.make_node("Concat", ["count", "twice"], ["logits"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "bag",
        [helper.make_tensor_value_info(name, kinds.INT64, ["n", "length"]) for name in ("input_ids", "attention_mask")],
        [helper.make_tensor_value_info("logits", kinds.FLOAT, ["n", 2])],
        [helper.make_tensor("zero", kinds.FLOAT, [], [0.0]), helper.make_tensor("axis", kinds.INT64, [1], [1])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, str(folder / "bag.onnx"))
    return folder / "bag.onnx"


def test_scikit_learn_pipelines_and_functions():
    pipeline = make_pipeline(CountVectorizer(), LogisticRegression()).fit(["good film", "bad film"], ["up", "down"])
    model = text_model(pipeline)
    assert model.classes == ("down", "up")
    assert model(["good", "bad"]).argmax(axis=1).tolist() == [1, 0]
    assert text_model(len).classes is None
    with pytest.raises(InputError, match="model must be a function"):
        text_model(3)


def test_pieces_are_the_same_from_several_threads_while_what_is_kept_is_emptied(monkeypatch):
    monkeypatch.setattr(network, "MOST_SENTENCES", 4)
    texts = [f"What a film number {k % 7}, and<br />so dull." for k in range(40)]
    alone = [network.ids_of(encoding).tolist() for encoding in network.pieces_of(texts)]
    with ThreadPoolExecutor(4) as pool:
        every = list(pool.map(lambda _: [row.tolist() for row in network.numbers_of(texts)], range(60)))
    assert all(found == alone for found in every)


@pytest.mark.parametrize(
    "text",
    ["", " ", ". ", "a. . b", "Wait... it was.  Then. ", "[MASK]. x", "x.<br />. y <br /> z", "Dr. No. 7.5 a.\nb. c"],
)
def test_pieces_of_sentences_put_together_are_those_of_the_text(text):
    alone = network.ids_of(network.pieces_of([text])[0])
    for found in (*network.numbers_of([text, text]), *network.numbers_of([text])):
        np.testing.assert_array_equal(found, alone)
        assert found.dtype == alone.dtype
