"""How the documentation is built: `make docs`."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

HERE = Path(__file__).parent
# the tree that the pages belong to, whatever else may be installed
sys.path[:0] = [str(HERE.parent / "src"), str(HERE / "_extensions")]

from colabel import __version__  # noqa: E402

project = "colabel"
author = "The colabel developers"
copyright = "the colabel developers"
version = release = __version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "api_names",
    "math_svg",
    "sketches",
]
exclude_patterns = ["_build", "images"]
templates_path = ["_templates"]
nitpicky = True
toc_object_entries_show_parents = "hide"
default_role = "api"  # of _extensions/api_names.py: a link where there is one, code elsewhere

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"  # types stand in the numpydoc sections
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

html_theme = "pydata_sphinx_theme"
html_title = "colabel"
html_math_renderer = "svg"  # of _extensions/math_svg.py: the pages work where they lie
html_static_path = ["_static"]
html_css_files = ["colabel.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "colabel"},
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "show_prev_next": True,
    "show_toc_level": 2,
    # terminals are wide: no column to the right of them
    "secondary_sidebar_items": {"**": ["page-toc"], "guide/command_line": []},
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "github-dark",
}
# pages without pages below them have nothing to list at their left
_ALONE = ("start", "faq", "glossary", "benchmarks", "peers", "citing", "changelog")
html_sidebars: dict[str, list[str]] = {page: [] for page in _ALONE}

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "lessons",
    "backreferences_dir": "lessons/backreferences",
    "doc_module": ("colabel",),
    "filename_pattern": r"/plot_",
    "within_subsection_order": "lesson_order.LessonOrder",
    "image_scrapers": ("matplotlib",),
    "matplotlib_animations": False,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1_000_000,
    "write_computation_times": False,
    "remove_config_comments": True,
    "plot_gallery": True,
    "abort_on_example_error": False,
    "only_warn_on_example_error": True,  # which -W makes an error
    "capture_repr": ("_repr_html_", "__repr__"),
    "ignore_repr_types": r"matplotlib|sklearn|colabel\.report",
}
# threads of Agg figures: sphinx-gallery shows figures by saving them
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")
