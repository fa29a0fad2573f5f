"""What every test shares: one thread, seeded hypothesis, and no word on the reach of runs that are small on purpose."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from hypothesis import settings

settings.register_profile("seeded", derandomize=True, deadline=None, max_examples=60, database=None)
settings.load_profile("seeded")


def pytest_configure(config):
    config.addinivalue_line("filterwarnings", "ignore::butfor.ReachWarning")  # pytest.warns still sees them
