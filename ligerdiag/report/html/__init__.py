"""The report as pages for people: one self-contained file a case, and an index. No network, no framework at run time.

Everything is laid out here, in Python; the templates write it down as HTML and SVG. A page's own script folds, steps,
sorts and unpacks the module's text; without it everything but the rest of the module can be read.
"""

from ligerdiag.report.html.environment import GENERATOR, INDEX, compute_file_names
from ligerdiag.report.html.pages import render_case_html, render_index_html

__all__ = ["GENERATOR", "INDEX", "compute_file_names", "render_case_html", "render_index_html"]
