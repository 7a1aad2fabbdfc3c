"""Configuration of the documentation; ``make docs`` builds it without a network."""

from __future__ import annotations

import collections
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from _extensions import comments, folded, links, mathml, navigation, speed, tables
from numpydoc.xref import DEFAULT_LINKS

import desim

project = "desim"
author = "desim contributors"
copyright = "desim contributors"
version = release = desim.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
    "numpydoc",
]
exclude_patterns = ["_build", "examples"]
default_role = "py:obj"
nitpicky = True
nitpick_ignore_regex = [
    ("py:.*", r"(collections|gymnasium|matplotlib|networkx|numpy|polars|simpy|torch)\..*"),  # no links outside
    ("py:.*", r"desim\.(experiments|cli)\..*"),  # have guides and pages of background in place of a reference
    ("py:obj", r"[a-z]\w*"),  # a parameter, between single backquotes in a docstring
]
toc_object_entries = False
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
maximum_signature_line_length = 88

# -- reference ------------------------------------------------------------------------------------
autodoc_typehints = "none"  # the docstrings say the types, with shapes and units
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_use_type_comments = False
autosummary_generate = False
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
numpydoc_use_plots = False
numpydoc_xref_param_type = True
numpydoc_xref_ignore = "all"
numpydoc_xref_aliases = {word: word for word in DEFAULT_LINKS} | links.public_names()  # no links outside

# -- gallery --------------------------------------------------------------------------------------
sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"plot_",
    "image_scrapers": ("_extensions.figures.scraper",),
    "capture_repr": ("_repr_html_",),  # tables, but no addresses of figures' parts
    "reset_modules": ("_extensions.speed.keep",),
    "download_all_examples": False,
    "show_signature": False,
    "min_reported_time": 1e6,
    "write_computation_times": False,
    "remove_config_comments": True,
}

# -- pages ----------------------------------------------------------------------------------------
html_theme = "furo"
html_title = f"desim {release}"
html_static_path = ["_static"]
html_css_files = ["desim.css"]
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
html_math_renderer = "mathml"
smartquotes_action = "qe"  # two hyphens are those of an option
pygments_style = "friendly"
pygments_dark_style = "github-dark"


def skip_fields(app, what, name, obj, *others):
    """Leave out the fields of named tuples, which the docstring of the class describes."""
    return True if isinstance(obj, collections._tuplegetter) else None


def setup(app):
    """Register what is not an extension of its own."""
    speed.setup(app)
    navigation.setup(app)
    mathml.setup(app)
    tables.setup(app)
    folded.setup(app)
    links.setup(app)
    comments.setup(app)
    app.connect("autodoc-skip-member", skip_fields)
