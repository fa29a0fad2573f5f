"""The documentation site: `make docs`. Offline: nothing is fetched to build it, and nothing to read it."""

from __future__ import annotations

import re
from typing import Any

import butfor

project = "butfor"
author = "The butfor authors"
copyright = "the butfor authors, Apache-2.0"
version = release = butfor.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon"]
default_role = "code"  # `name` in a docstring is a name
highlight_language = "none"  # blocks without a language are output
nitpicky = False

myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "attrs_inline"]

autosummary_generate = False  # the pages of docs/api are written by hand and filled by automodule
autodoc_typehints = "none"  # the docstring says in words what is taken; the types are for mypy
autodoc_member_order = "bysource"
napoleon_google_docstring = False

html_theme = "pydata_sphinx_theme"
html_title = "butfor"
html_static_path = ["_static"]
html_css_files = ["butfor.css"]
html_context = {"default_mode": "auto"}  # light or dark as the reader's system has it
html_show_sourcelink = False
html_copy_source = False
html_theme_options: dict[str, Any] = {
    "logo": {"text": "butfor"},
    "navbar_align": "left",
    "navbar_persistent": ["search-button"],  # with its keys in it the button is read otherwise than it is labelled
    "header_links_before_dropdown": 7,
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": [], "which-question": [], "gallery": []}  # pages without others beside them


def name_over_text(*event: Any) -> None:
    """Our docstrings have `name : text` where numpydoc has `name : type` and the text below: put the text below.

    Section by section: a line at the margin of Parameters, Attributes or Raises that has " : " opens an entry.
    """
    lines: list[str] = event[-1]
    section, found = "", []
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if re.fullmatch(r"-{3,}", below.strip()):
            section = line.strip()
        entry = re.match(r"([\w*.`\"', -]+?) : (.+)", line)
        if section == "Parameters" and entry:
            found += [entry[1], f"    {entry[2]}"]
        else:
            found.append(line)
    lines[:] = found


def setup(app: Any) -> None:
    app.connect("autodoc-process-docstring", name_over_text, priority=100)  # before napoleon, which has 500
