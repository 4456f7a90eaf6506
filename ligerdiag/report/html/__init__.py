"""The report as HTML: one self-contained page for each case, and an index.

Pages load nothing from the network and use no framework. Python computes the whole layout; the templates write it as
HTML and SVG. The script of a page folds sections, steps through the schedule, sorts tables and unpacks the text of the
module. Without the script a reader can see everything but the packed part of the module.
"""

from ligerdiag.report.html.environment import GENERATOR, INDEX, compute_file_names
from ligerdiag.report.html.pages import render_case_html, render_index_html

__all__ = ["GENERATOR", "INDEX", "compute_file_names", "render_case_html", "render_index_html"]
