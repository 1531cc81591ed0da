"""The learner's own copy of the course, and the page that JupyterLab opens with.

``notebooks/`` and ``exercises/`` of the repository are the recorded edition: outputs from a GPU, for GitHub and for the
tests. What a learner opens is a copy of it in ``work/``, which git does not know.

``edition.py``       a notebook of the course as a learner first meets it: without outputs
``merge.py``         a new edition meets a learner's changes, cell by cell
``working_copy.py``  the folder ``work/``: making it, bringing it up to date, starting a notebook over
``progress.py``      what the learner has answered, written by the widgets and the checks
``outline.py``       the chapters, what there is to answer in each, and what comes next
``start_page.py``    all of that as a page
``server.py``        the page and its buttons, as an extension of Jupyter's server

Nothing here reads the course's folder but ``WorkingCopy.update``: afterwards the working copy stands alone.
"""
