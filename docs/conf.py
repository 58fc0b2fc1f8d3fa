"""How Sphinx makes the site of these pages: `make docs`. Everything comes from packages, nothing from another host."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # for `tools`, which is not installed

from findingaid import __version__ as release  # needs no path, but what Sphinx reads stands below it

project = "findingaid"
author = "the authors of findingaid"
html_title = f"findingaid {release}"

extensions = ["myst_parser", "sphinx.ext.autodoc", "tools.reference"]
myst_heading_anchors = 4  # as GitHub makes them, so that links work in both places
default_role = "code"  # docstrings put names in single backticks
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "undoc-members": True}
autodoc_preserve_defaults = True
smartquotes = False  # an SQL condition that is copied from a sentence has to work
suppress_warnings = ["misc.highlighting_failure"]  # transcripts and prompts are no language

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_copyright = False
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {"top_of_page_buttons": []}
