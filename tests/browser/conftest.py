"""A real browser for pages that people open: Debian's chromium driven by playwright."""

import shutil
import subprocess
import tarfile
from dataclasses import dataclass, field

import pytest

FLAGS = (
    "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update "
    "--disable-sync --disable-dev-shm-usage"
)
WIDE, NARROW = (1280, 900), (390, 844)  # a desk and a telephone


@pytest.fixture(scope="session")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        try:
            opened = driver.chromium.launch(executable_path=chromium, args=FLAGS.split())
        except playwright.Error as error:
            pytest.skip(f"chromium does not start here: {str(error).splitlines()[0]}")
        yield opened
        opened.close()


@dataclass
class Opened:
    """A page, what it asked for and what it complained of."""

    page: object
    asked: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def elsewhere(self):
        return [url for url in self.asked if not url.startswith(("file:", "data:"))]

    def overflow(self):
        """Pixels by which the page is wider than the window: what a reader would have to scroll sideways."""
        return self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")


@pytest.fixture
def visit(browser):
    """Open a file at a size of window; everything that goes on is noted from the start."""
    contexts = []

    def visit(path, size=WIDE, scheme="light", **options):
        view = {"width": size[0], "height": size[1]}
        contexts.append(browser.new_context(viewport=view, color_scheme=scheme, **options))
        opened = Opened(contexts[-1].new_page())
        opened.page.on("request", lambda request: opened.asked.append(request.url))
        opened.page.on("console", lambda message: opened.complaints.append(message.text))
        opened.page.on("pageerror", lambda error: opened.complaints.append(str(error)))
        opened.page.goto(path.as_uri())
        return opened

    yield visit
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def axe(tmp_path_factory):
    """The text of axe-core, which finds what keeps people from reading a page; from npm, never into the tree."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed: axe-core comes from there")
    folder = tmp_path_factory.mktemp("axe")
    packed = subprocess.run([npm, "pack", "axe-core@4"], cwd=folder, capture_output=True, timeout=120, check=False)
    if packed.returncode:
        pytest.skip("npm cannot reach its registry for axe-core")
    with tarfile.open(next(folder.glob("*.tgz"))) as archive:
        return archive.extractfile("package/axe.min.js").read().decode("utf-8")
