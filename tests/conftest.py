"""What every test shares: one thread, seeded hypothesis, and no word on the reach of runs that are small on purpose."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from hypothesis import settings

settings.register_profile("seeded", derandomize=True, deadline=None, max_examples=60, database=None)
settings.load_profile("seeded")


def pytest_configure(config):
    config.addinivalue_line("filterwarnings", "ignore::butfor.ReachWarning")  # pytest.warns still sees them


SLOW = ("calibration", "faults", "benchmarks", "browser", "studio")  # folders
SLOW_FILES = (
    "test_docs",
    "test_notebooks",
    "test_examples",
    "test_bare_install",
    "test_cli",
    "test_golden",
    "test_same",
)
NEEDS = {  # a marker, and what a file says that needs it
    "torch": ("import torch", "transformers", "diffusers", 'importorskip("torch'),
    "browser": ("playwright",),
    "assets": ("BUTFOR_ASSETS", "from assets", "import assets"),
}


def pytest_collection_modifyitems(items):
    """Mark tests by their folder and by what their file needs: `make quick` leaves those out."""
    texts = {}
    for item in items:
        path = item.path
        if path.suffix != ".py" or "tests" not in path.parts:
            continue
        if path not in texts:
            texts[path] = path.read_text(encoding="utf-8")
        if set(SLOW) & set(path.parts) or path.name.startswith(SLOW_FILES):
            item.add_marker("slow")
        for marker, words in NEEDS.items():
            if any(word in texts[path] for word in words):
                item.add_marker(marker)
