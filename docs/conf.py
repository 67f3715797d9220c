"""How the documentation is built: `./run docs` (offline; warnings are errors)."""

import sys
import warnings
from pathlib import Path

DOCS = Path(__file__).parent
ROOT = DOCS.parent
sys.path.insert(0, str(DOCS / "_extensions"))
# A page of the gallery draws the rows of a reproduction.
sys.path.insert(0, str(ROOT))

import fairspan  # noqa: E402  (after the path is known)

project = "fairspan"
author = "The fairspan developers"
project_copyright = author
version = release = fairspan.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "gallery",
    "mathml",
    "picture",
    "repository_links",
]
exclude_patterns = ["_extensions", "_templates"]
# Blocks without a language are commands and what they print.
highlight_language = "none"
templates_path = ["_templates"]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
# Links to headings, as GitHub makes them.
myst_heading_anchors = 4

autosummary_generate = True
# Two pages whose addresses differ by case alone would be one file on many file systems.
autosummary_filename_map = {
    f"fairspan.{name}": f"fairspan.{name}-function" for name in ("audit", "frontier")
}
autosummary_ignore_module_all = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

html_math_renderer = "mathml"

html_theme = "pydata_sphinx_theme"
html_title = "fairspan"
html_context = {"default_mode": "auto"}
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["filter.js"]
html_copy_source = False
html_show_sourcelink = False
html_last_updated_fmt = None
# Pages without others below them need no contents beside them.
_ALONE = (
    *("index", "installation", "tutorial", "from-pca", "choosing", "criteria", "faq", "glossary"),
    *("when-not-to-use", "theory", "trust", "findings", "scale", "data-sources", "comparison"),
    *(
        "from-the-papers",
        "reproduced",
        "data-files",
        "results",
        "command-line",
        "json",
        "citing",
        "versions",
    ),
)
html_sidebars: dict[str, list[str]] = {page: [] for page in _ALONE}
html_theme_options = {
    "logo": {"text": "fairspan"},
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button"],
    "header_links_before_dropdown": 7,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "navigation_with_keys": False,
}

# Notes of other programs about what they will change; none is about these pages.
warnings.filterwarnings("ignore", category=PendingDeprecationWarning)

sphinx_gallery_conf = {
    "examples_dirs": str(ROOT / "examples"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"/[a-z_0-9]+\.py",
    "ignore_pattern": r"__init__\.py",
    "within_subsection_order": "gallery.InOrder",
    "reset_modules_order": "both",
    "reset_modules": ("matplotlib", "gallery.as_strict_as_tests"),
    "capture_repr": (),
    "download_all_examples": False,
    "show_signature": False,
    "min_reported_time": 1000,
    "remove_config_comments": True,
    "image_scrapers": ("gallery.pictures",),
    "image_srcset": ["2x"],
    "thumbnail_size": (640, 400),
    "nested_sections": False,
    "copyfile_regex": r".*\.rst",
    "write_computation_times": False,
}
