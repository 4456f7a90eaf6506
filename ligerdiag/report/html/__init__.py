"""The report as HTML: one self-contained page a case, and an index.

Pages load nothing from the network and use no framework. Python computes the whole layout; the templates write it as
HTML and SVG. The script of a page folds, steps, sorts and unpacks the text of the module; without it, everything except
the rest of the module can be read.
"""

from ligerdiag.report.html.environment import GENERATOR, INDEX, compute_file_names
from ligerdiag.report.html.pages import render_case_html, render_index_html

__all__ = ["GENERATOR", "INDEX", "compute_file_names", "render_case_html", "render_index_html"]
