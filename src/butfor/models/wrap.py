"""Wrap any model as a callable with the labels of its outputs."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from dis import get_instructions
from functools import partial
from hashlib import blake2b, file_digest
from importlib import import_module
from itertools import chain
from pathlib import Path
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
from numpy.typing import DTypeLike

from butfor.types import Array, Batch, InputError, Model, ModelError, reworded

if TYPE_CHECKING:
    import pandas as pd


def need(module: str, extra: str | None) -> Any:
    """Import a module, or raise one sentence on how to install it: by an extra of butfor, or by its name (None).

    >>> need("json", "nothing").dumps([1])
    '[1]'
    >>> need("no_such_module", "image")
    Traceback (most recent call last):
    butfor.types.InputError: this needs no_such_module, which is not installed; pip install 'butfor[image]'
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = module.split(".")[0]
        if error.name is None or error.name.split(".")[0] != package:
            raise  # it is there, and something that it needs is not
        install = package if extra is None else f"'butfor[{extra}]'"
        raise InputError(f"this needs {package}, which is not installed; pip install {install}") from error


def loaded(module: str) -> Any:
    """Return a module that is imported already, else None: there is no object of a library that is not loaded."""
    return sys.modules.get(module)


def attribute(thing: object, name: str) -> Any:
    """Return an attribute of an object, or None; scikit-learn hides methods that an estimator does not have.

    >>> attribute(3, "classes_") is None
    True
    """
    return getattr(thing, name, None)


def one_line(error: object) -> str:
    """Return the message of an error in one line.

    >>> one_line(ValueError("two\\n  lines"))
    'two lines'
    """
    return " ".join(str(error).split())


Method = Callable[[Batch], Any]  # of an estimator


@dataclass(frozen=True)
class Wrapped:
    """A model as a callable, with the names of its outputs and of the columns it takes (None: not known).

    Parameters
    ----------
    call : callable
        A function of a batch of n inputs that returns (n,) or (n, outputs).
    classes : tuple, default=None
        The names of the outputs.
    columns : tuple, default=None
        The names of the columns that the model takes, in its order.
    predict : callable, default=None
        A function of a batch that returns the class that the model itself decides for, where it has one.
    decides : bool, default=True
        False where the outputs are numbers to be predicted, of which the largest is no decision.

    Examples
    --------
    >>> Wrapped(sum, classes=("total",))([1, 2])
    3
    """

    call: Model
    classes: tuple[Any, ...] | None = None
    columns: tuple[Any, ...] | None = None
    predict: Method | None = None
    decides: bool = True

    def __call__(self, batch: Batch) -> Any:
        return self.call(batch)


def wrap(model: object) -> Wrapped:
    """Wrap a model by its best output: probabilities, else scores, else predictions, else what the callable returns.

    A classifier has one output per class in any case: probabilities, the decision function (of two classes: the margin
    and its negative, so that either can be the target), or 1 for the label it predicts and 0 for the others. A
    classifier of several things at once has one output per thing and class, called "0=yes", "0=no", "1=yes" and so on.

    Parameters
    ----------
    model : object
        A function, a scikit-learn estimator, a Booster of LightGBM or XGBoost, a Hugging Face pipeline, a torch module,
        or what is wrapped already.

    Returns
    -------
    Wrapped
        The model as a callable.

    Examples
    --------
    >>> wrap(len).classes is None
    True
    >>> from sklearn.svm import LinearSVC
    >>> wrap(LinearSVC().fit([[0.0], [1.0]], ["no", "yes"])).classes
    ('no', 'yes')
    """
    if isinstance(model, Wrapped):
        return model
    if isinstance(model, type):
        raise InputError(f"model is the class {model.__name__}, expected a fitted object of it or a function")
    if any(kind.__module__.startswith("transformers.pipelines") for kind in type(model).__mro__):
        from butfor.models.huggingface import hugging_face

        return hugging_face(model)
    if is_booster(model):
        return _booster(model)
    if is_estimator(model):
        return _estimator(model)
    torch = loaded("torch")
    if torch is not None and isinstance(model, torch.nn.Module):
        from butfor.models.torch import torch_module

        return torch_module(model)
    if callable(model):
        return Wrapped(model)
    raise InputError(f"model must be a function or have predict_proba or predict, got {type(model).__name__}")


def is_estimator(model: object) -> bool:
    return any(attribute(model, name) is not None for name in ("predict_proba", "decision_function", "predict"))


def _estimator(model: object) -> Wrapped:
    columns = _names(attribute(model, "feature_names_in_"))
    classes = attribute(model, "classes_")
    probabilities, scores = attribute(model, "predict_proba"), attribute(model, "decision_function")
    several = isinstance(classes, list) and len(classes) > 0 and all(np.ndim(labels) == 1 for labels in classes)
    if probabilities is not None and several:  # one array of classes per output
        names = [f"{k}={label}" for k, labels in enumerate(classes) for label in np.asarray(labels).tolist()]
        return Wrapped(partial(joined, probabilities), tuple(names), columns)
    predict = attribute(model, "predict")
    if probabilities is not None:
        return Wrapped(probabilities, _names(classes), columns, predict if classes is not None else None)
    if scores is not None and classes is None:  # an outlier detector: its score, rather than the -1 or 1 it predicts
        return Wrapped(scores, None, columns)
    if scores is not None:
        if len(classes) > 2 and attribute(_last(model), "decision_function_shape") == "ovo":
            raise InputError(
                "the model's decision function compares pairs of classes; set decision_function_shape='ovr'"
            )
        return Wrapped(partial(margins, scores), _names(classes), columns)
    if classes is None or several:
        base = loaded("sklearn.base")
        regressor = base is not None and isinstance(_last(model), base.RegressorMixin)
        return Wrapped(predict, None, columns, decides=not regressor)
    return Wrapped(partial(indicators, predict, np.asarray(classes)), _names(classes), columns)


def _last(model: object) -> object:
    """Return the estimator at the end of a pipeline, or the best one of a search."""
    steps = attribute(model, "steps")
    inner = attribute(model, "best_estimator_") or (steps[-1][1] if steps else None)
    return model if inner is None else _last(inner)


def library(kind: type) -> str:
    """Return the name of the package that a class comes from.

    >>> library(np.ndarray)
    'numpy'
    """
    return kind.__module__.partition(".")[0]


def writes_underscores(model: object) -> bool:
    """Tell whether it is LightGBM's, which keeps the names of columns with an underscore for each space."""
    return any(library(kind) == "lightgbm" for kind in type(_last(model)).__mro__)


def is_booster(model: object) -> bool:
    return type(model).__name__ == "Booster" and library(type(model)) in ("lightgbm", "xgboost")


def booster_objective(model: Any) -> tuple[str, int]:
    """Return the objective that a raw Booster was trained for, and how many classes it names."""
    if library(type(model)) == "xgboost":
        learner = json.loads(model.save_config())["learner"]
        return str(learner["objective"]["name"]), int(learner["learner_model_param"]["num_class"])
    dump = model.dump_model(num_iteration=1)
    return next(iter(str(dump.get("objective", "")).split()), "none"), int(dump["num_class"])


TWO_CLASSES = ("binary", "binary:logistic")  # objectives whose output is the probability of the second class


def _booster(model: Any) -> Wrapped:
    """Wrap a raw Booster: probabilities of classes 0, 1, ... where it was trained on classes, else its predictions."""
    light, (objective, classes) = library(type(model)) == "lightgbm", booster_objective(model)
    predict = model.predict if light else model.inplace_predict  # XGBoost's own predict takes no frame
    names = model.feature_name() if light else model.feature_names
    if light and names == [f"Column_{k}" for k in range(len(names))]:
        names = None  # it was trained on an array
    if objective == "multi:softmax":
        raise InputError("this Booster of XGBoost predicts labels; train it with objective='multi:softprob'")
    if objective in TWO_CLASSES:
        return Wrapped(partial(both_classes, predict), (0, 1), _names(names))
    return Wrapped(predict, tuple(range(classes)) if classes > 1 else None, _names(names), decides=classes > 1)


def both_classes(predict: Method, batch: Batch) -> Array:
    """Return the probabilities of both of two classes (n, 2) from that of the second (n,)."""
    second = np.asarray(predict(batch))
    return np.column_stack([1 - second, second])


def _names(labels: object) -> tuple[Any, ...] | None:
    return None if labels is None else tuple(np.asarray(labels).tolist())


def joined(predict_proba: Method, batch: Batch) -> Array:
    """Return probabilities of several outputs side by side, (n, classes of the first + classes of the second + ...)."""
    parts = predict_proba(batch)
    if isinstance(parts, list):
        return np.hstack(parts)
    present = np.asarray(parts)  # a chain of two-class models gives only the probability of the second class
    return np.stack([1 - present, present], axis=2).reshape(len(present), -1)


def margins(decision_function: Method, batch: Batch) -> Array:
    """Return a decision function with one column per class; of two classes it is the margin of the second."""
    scores = np.asarray(decision_function(batch))
    return np.column_stack([-scores, scores]) if scores.ndim == 1 else scores


def indicators(predict: Method, classes: Array, batch: Batch) -> Array:
    """Return 1 for the predicted class and 0 for the others: labels are no numbers, even where they look like it."""
    predicted: Array = np.asarray(predict(batch))[:, None] == classes
    return predicted.astype(np.float64)


def model_name(model: object) -> str:
    """Return the identity of a model: where a function is defined, or the repr of an object."""
    name = attribute(model, "__qualname__")
    if name is not None:
        return f"{attribute(model, '__module__')}.{name}"
    return re.sub(r" at 0x[0-9a-f]+", "", " ".join(repr(model).split()))[:500]  # an address is of one process only


def content_digest(model: object) -> str | None:
    """Return a digest of what a model computes with: a fitted estimator, weights, a file, the code of a function and
    what it uses, the version that a server says it has.

    It is the same in another process, and counters or caches that a model keeps are no part of it. None: only its
    answers can tell such a model from another.

    >>> content_digest(lambda rows: rows[:, 0]) == content_digest(lambda rows: rows[:, 0])
    True
    >>> one, two = (lambda rows, w=w: rows @ w for w in (np.ones(3), np.zeros(3)))
    >>> content_digest(one) == content_digest(two)
    False
    """
    try:
        parts = _content(model, {})
    except ModelError:  # a server that is not there
        raise
    except Exception:  # what of somebody else's object cannot be read is not known
        return None
    return None if parts is None else blake2b(parts, digest_size=20).hexdigest()


def _content(value: object, seen: dict[int, object]) -> bytes | None:
    """Return bytes that tell what computes like `value` from what does not; None: that is not known."""
    base, torch = loaded("sklearn.base"), loaded("torch")
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return repr(value).encode("utf-8", "surrogatepass")
    if isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
        return repr((value.dtype.str, value.shape)).encode() + blake2b(value.tobytes()).digest()
    if isinstance(value, tuple):  # a list or a dict may be a counter or a cache
        return repr([_content(member, seen) for member in value]).encode()
    if id(value) in seen:
        return b""
    seen[id(value)] = value  # kept, or another may get its place
    if isinstance(value, partial):
        return _content((value.func, *value.args, *chain(*sorted(value.keywords.items()))), seen)
    if isinstance(value, FunctionType):
        return _function(value, seen)
    if isinstance(value, MethodType):
        return _content(value.__self__, seen)
    if base is not None and isinstance(value, base.BaseEstimator):
        from joblib import hash as joblib_hash

        return str(joblib_hash(value)).encode()
    if torch is not None and isinstance(value, torch.nn.Module):
        weights = {name: part.detach().cpu().float().numpy() for name, part in value.state_dict().items()}
        return _content(tuple(chain(*weights.items())), seen)
    if is_booster(value):
        booster: Any = value
        text = booster.model_to_string() if library(type(value)) == "lightgbm" else booster.save_raw("json")
        return text.encode() if isinstance(text, str) else bytes(text)
    if isinstance(path := attribute(value, "path"), str | Path):
        with open(path, "rb") as file:
            return file_digest(file, "blake2b").digest()
    if callable(version := attribute(value, "version_of_model")):
        return _content(version(), seen)
    if isinstance(value, type | ModuleType) or not _is_users(attribute(type(value), "__module__")):
        return None
    estimator, module = attribute(base, "BaseEstimator"), attribute(loaded("torch.nn"), "Module")
    classes = np.ndarray, FunctionType, partial, estimator, module
    computing = tuple(one for one in classes if one is not None)  # the rest it may count or keep as it goes
    parts = {**vars(type(value)), **getattr(value, "__dict__", {})}.items()
    kept = {name: part for name, part in parts if isinstance(part, computing) or is_booster(part)}
    return _content(tuple(chain(*sorted(kept.items()))), seen)


def _function(function: FunctionType, seen: dict[int, object]) -> bytes:
    """Return its code, and what of its defaults, its closure and its module the code reads and does not write."""
    code = function.__code__
    inside = [code, *_codes(code)]
    used = [cell.cell_contents for cell in function.__closure__ or () if cell != CellType()]
    if _is_users(function.__module__):
        names = {name for part in inside for name in part.co_names} & function.__globals__.keys()
        steps = (one for part in inside for one in get_instructions(part))
        names -= {one.argval for one in steps if one.opname in ("STORE_GLOBAL", "DELETE_GLOBAL")}
        used += [function.__globals__[name] for name in sorted(names)]
    defaults = (*(function.__defaults__ or ()), *chain(*sorted((function.__kwdefaults__ or {}).items())))
    made = blake2b()
    for part in inside:
        made.update(part.co_code + repr((part.co_names, part.co_varnames)).encode())
        for constant in part.co_consts:  # the members of a set have no order that is the same in another process
            if not isinstance(constant, CodeType):
                made.update(repr(sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant).encode())
    return made.digest() + (_content((*defaults, *used), seen) or b"")


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of all functions that are written inside another."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


def _is_users(module: object) -> bool:
    """Tell whether a module is one of the user's own, or of ours: what others wrote stays as it is, and has caches."""
    package = str(module).split(".")[0]
    file = attribute(sys.modules.get(str(module)), "__file__") or ""
    installed = package in sys.stdlib_module_names or re.search(r"[/\\](site|dist)-packages[/\\]", file)
    return package == "butfor" or not installed


def is_frame(batch: object) -> TypeGuard[pd.DataFrame]:
    """Tell whether it is a pandas frame, without importing pandas.

    >>> is_frame(np.zeros((2, 2)))
    False
    """
    return attribute(batch, "iloc") is not None and attribute(batch, "columns") is not None


def is_series(data: object) -> TypeGuard[pd.Series[Any]]:
    return attribute(data, "iloc") is not None and attribute(data, "columns") is None


def check_aligned(labels: object, data: object, what: str = "y") -> None:
    """Refuse labels whose index is another than that of the data, where both have one; `what` is the keyword."""
    both = [thing for thing in (labels, data) if is_series(thing) or is_frame(thing)]
    if len(both) == 2 and list(both[0].index) != list(both[1].index):
        raise InputError(
            f"{what} and the data have different indexes; align them, or give {what}.to_numpy() if rows match"
        )


def matrix(batch: Batch, who: str) -> Array:
    """Return the batch as a matrix of numbers (n, columns); `who` names the model in an error.

    >>> matrix([[1, 2]], "this").shape
    (1, 2)
    """
    if not is_frame(batch):
        return np.asarray(batch)
    odd = [f"{name!r} ({kind})" for name, kind in batch.dtypes.items() if kind.kind not in "fiub"]
    if odd:
        raise ModelError(
            f"{who} takes numbers, but the frame has {', '.join(odd[:4])}{' and more' if len(odd) > 4 else ''}; encode "
            "these columns in a function around the model, or use a pipeline that does"
        )
    return np.asarray(batch.to_numpy(dtype=np.float64, na_value=np.nan))


def chunks(rows: int, most: int) -> list[tuple[int, int]]:
    """Return starts and stops of at most `most` rows each.

    >>> chunks(5, 2)
    [(0, 2), (2, 4), (4, 5)]
    """
    return [(start, min(start + most, rows)) for start in range(0, rows, most)]


def taken(batch: Batch, start: int, stop: int) -> Batch:
    """Return rows of a matrix, a frame or a list.

    >>> taken(["a", "b", "c"], 1, 3)
    ['b', 'c']
    """
    return batch.iloc[start:stop] if is_frame(batch) else batch[start:stop]


def padded(batch: Batch, rows: int) -> Batch:
    """Repeat the last row of a batch until it has so many: for models that take no other number.

    >>> padded(["a", "b"], 3)
    ['a', 'b', 'b']
    """
    if len(batch) >= rows:
        return batch
    if isinstance(batch, list):
        return batch + [batch[-1]] * (rows - len(batch))
    index = np.minimum(np.arange(rows), len(batch) - 1)
    return batch.iloc[index] if is_frame(batch) else batch[index]


def as_type(values: Array, kind: DTypeLike | None, name: str) -> Array:
    """Cast values to the type that a model declares for its input `name`; nothing is rounded to be whole.

    >>> as_type(np.array([1.0, 2.0]), np.int64, "age").tolist()
    [1, 2]
    """
    words = f"the model takes {np.dtype(kind).name} in {name!r}, got other values: "
    with reworded(words, (TypeError, ValueError), by=ModelError):
        numbers = values if values.dtype.kind in "fiub" else values.astype(np.float64)
        if np.dtype(kind).kind in "iub" and numbers.dtype.kind == "f" and not np.array_equal(numbers, np.rint(numbers)):
            raise ValueError("not all of it is whole")
        return numbers.astype(kind, copy=False)
