"""The report as one HTML file: everything about a run, a comparison or a sweep.

The file is self-contained. It opens from a disk without a server or a network, in any browser, and
prints on paper. Plotly, whose program is inside the file, draws its charts; a short script of this
package switches jobs on and off and sorts tables.

html_page.py turns charts and tables into the file. plotly_parts.py has what all charts share, and
each *_chart module draws one side of a run from what data/ has prepared. run_page.py,
comparison_page.py and sweep_page.py say what is on which page. Charts are plain dictionaries in
Plotly's format, so only the file itself needs Plotly.
"""

from testbed.analysis.html.comparison_page import write_comparison
from testbed.analysis.html.run_page import write_run
from testbed.analysis.html.sweep_page import write_sweep

__all__ = ["write_comparison", "write_run", "write_sweep"]
