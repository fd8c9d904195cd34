"""The report as one HTML file: everything about a run, a comparison or a sweep, to be looked at.

The file is self-contained. It opens from a disk without a server or a network, in any browser, on
paper too. Its charts are Plotly's, whose program is inside the file; what else happens on the page
(switching jobs on and off, sorting tables) is a short script of ours.

`page` turns charts and tables into the file. `plots` is what all charts have in common; the modules
beside it each draw one side of a run. `run_page`, `comparison_page` and `sweep_page` say what is on
which page. Charts are plain dictionaries in Plotly's format, so that nothing but this package and a
browser needs Plotly.
"""

from testbed.analysis.html.comparison_page import write_comparison
from testbed.analysis.html.run_page import write_run
from testbed.analysis.html.sweep_page import write_sweep

__all__ = ["write_comparison", "write_run", "write_sweep"]
