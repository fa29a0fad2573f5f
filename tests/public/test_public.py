"""The public face: names, what importing costs, docstrings; who may import whom is in test_layers."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import butfor

SOURCE = Path(butfor.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))
HEAVY = ["torch", "sklearn", "pandas", "matplotlib", "onnxruntime", "transformers", "statsmodels", "cv2", "skimage"]
HEAVY += ["httpx", "skops", "polars", "pyarrow", "PIL", "scipy.stats"]


def imports(tree):
    """Names of modules imported when the module itself is imported: not inside functions, not for type checkers."""
    for node in tree.body if isinstance(tree, ast.Module) else tree:
        if isinstance(node, ast.If):
            if "TYPE_CHECKING" not in ast.unparse(node.test):
                yield from imports(node.body)
            yield from imports(node.orelse)
        elif isinstance(node, ast.Try):
            yield from imports(node.body)
            for handler in node.handlers:
                yield from imports(handler.body)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)


def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def short(path):
    return str(path.relative_to(SOURCE))


@pytest.mark.parametrize("name", butfor.__all__)
def test_public_names_exist(name):
    assert getattr(butfor, name) is not None


def test_the_names_of_the_design_are_public():
    names = ("explain", "load", "Result", "Guarantee", "Subset", "tabular", "selection", "simulate", "__version__")
    for name in (*names, "irt", "sequential", "few_shot", "osft", "Settings", "SamplerInfo", "plots"):
        assert name in butfor.__all__
    for name in ("gaussian", "empirical"):
        assert callable(getattr(butfor.tabular, name))
    assert list(butfor.__all__) == sorted(butfor.__all__)


def loaded_by(code):
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(found.stdout.split())


def test_importing_butfor_loads_nothing_heavy():
    loaded = loaded_by("import butfor, sys; print(*sys.modules)")
    assert "butfor.explain" in loaded
    assert not loaded & {*HEAVY, "butfor.image", "butfor.multimodal", "butfor.simulate", "butfor.text"}


def test_what_is_loaded_late_is_there_all_the_same():
    loaded = loaded_by("import butfor, sys; butfor.image, butfor.text; print(*sys.modules)")
    assert {"butfor.image", "butfor.text"} <= loaded
    assert loaded_by("from butfor import *; print(*dir())") >= set(butfor.__all__) - {"__version__"}
    assert dir(butfor) == butfor.__all__
    with pytest.raises(AttributeError, match="no attribute 'imagine'"):
        butfor.imagine  # noqa: B018


def test_an_array_run_loads_no_pandas_and_no_torch():
    code = (
        "import sys, warnings, numpy, butfor; warnings.simplefilter('ignore');"
        "butfor.explain(lambda X: X[:, 0], numpy.ones((3, 2)), butfor.tabular.from_values("
        "lambda X, s, n, rng: rng.normal(size=(len(X) * n, 1))), test='irt', draws=9); print(*sys.modules)"
    )
    assert not loaded_by(code) & {"pandas", "torch", "matplotlib"}


@pytest.mark.parametrize("path", MODULES, ids=short)
def test_heavy_libraries_are_imported_where_they_are_used(path):
    if path.relative_to(SOURCE).parts[0] in ("studio", "plots"):
        pytest.skip("these folders are imported on demand")
    tops = {name.split(".")[0] for name in imports(parsed(path))}
    assert not tops & set(HEAVY)


@pytest.mark.parametrize("path", MODULES, ids=short)
def test_only_the_command_line_prints(path):
    if path.parent.name == "cli":
        return
    calls = [node for node in ast.walk(parsed(path)) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    assert not [node.lineno for node in calls if node.func.id == "print"]


@pytest.mark.parametrize("path", MODULES, ids=short)
def test_no_global_randomness(path):
    """numpy.random's module-level functions share one hidden state; generators do not."""
    fine = {"Generator", "SFC64", "SeedSequence", "default_rng", "PCG64", "BitGenerator"}
    used = [
        node.attr
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("np.random", "numpy.random")
    ]
    assert set(used) <= fine


def public_things():
    for space, names in (
        (butfor, butfor.__all__),
        (butfor.tabular, butfor.tabular.__all__),
        (butfor.image, butfor.image.__all__),
        (butfor.text, butfor.text.__all__),
        (butfor.selection, ["bh", "by", "holm", "bonferroni", "knockoff_plus"]),
        (butfor.Result, [name for name in dir(butfor.Result) if not name.startswith("_")]),
    ):
        for name in names:
            thing = getattr(space, name) if inspect.ismodule(space) else inspect.getattr_static(space, name)
            yield f"{getattr(space, '__name__', space)}.{name}", thing


@pytest.mark.parametrize(("name", "thing"), [pytest.param(*pair, id=pair[0]) for pair in public_things()])
def test_everything_public_has_a_docstring(name, thing):
    code = inspect.isfunction(thing) or inspect.isclass(thing) or inspect.ismodule(thing)
    if code or isinstance(thing, property) or hasattr(thing, "func"):
        assert (thing.__doc__ or "").strip()


@pytest.mark.parametrize("path", MODULES, ids=short)
def test_every_module_says_what_it_is(path):
    if path.name != "_version.py" and path.read_text(encoding="utf-8").strip():
        assert ast.get_docstring(parsed(path))


def test_explain_takes_its_settings_by_name():
    kinds = {name: parameter.kind for name, parameter in inspect.signature(butfor.explain).parameters.items()}
    assert [name for name, kind in kinds.items() if kind is inspect.Parameter.POSITIONAL_OR_KEYWORD][:3] == [
        "model",
        "X",
        "reference",
    ]
    assert all(kind is inspect.Parameter.KEYWORD_ONLY for kind in list(kinds.values())[3:])
    for name in ("subsets", "test", "alternative", "rule", "family", "target", "y", "link", "alpha", "draws", "seed"):
        assert name in kinds
    for name in ("batch_rows", "progress", "effects", "sampler", "rng", "picked", "run_dir", "on_error"):
        assert name in kinds


def test_errors_are_value_errors():
    assert issubclass(butfor.InputError, ValueError)
    assert issubclass(butfor.ModelError, butfor.InputError)
    assert issubclass(butfor.ReachWarning, UserWarning)
