"""What ran when: the ``Timeline`` of the work that ``with cudalab.trace() as t:`` records (``cudalab/tracing.py``).

A GPU has several engines that work at the same time: one that copies to the device, one that copies back, and the SMs
that run kernels. Streams say what must come after what; everything else may overlap (guide, "Asynchronous Concurrent
Execution"). A ``Timeline`` shows what did: one row for each stream, one for each engine, and the host's calls above,
and it knows for each span what it waited for.

On a GPU the spans are **measured**: CUPTI's activity records, on the device's own clock. On the simulated device they
are **modelled**. Both give the same object.

``spans.py``      one span, what it waited for, and how its figures are written
``timeline.py``   the ``Timeline``: what a learner asks
``analysis.py``   overlap, idle engines, the critical path, the sentence
``table.py``      the text table
``chrome.py``     Chrome-trace JSON, which Perfetto opens
``simulated.py``  spans from the simulated device's observer
``cupti.py``      CUPTI's activity records on a GPU (``records.py``: their fields)
``measured.py``   spans from CUPTI's records, and what each waited for, told from the times
``lines.py``      which line of the learner's program ran when
``naming.py``     names of streams
"""

from cudalab.timeline.spans import Span, Wait
from cudalab.timeline.timeline import Timeline

__all__ = ["Span", "Timeline", "Wait"]
