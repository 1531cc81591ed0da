"""The start page and its buttons, as an extension of Jupyter's server.

``GET /cudalab/start``        the page, as HTML
``GET /cudalab/changes``      how ``?notebook=`` differs from the course's edition, as text
``GET /cudalab/answers``      all answers and attempts as a file, ``?form=csv`` or ``json``
``POST /cudalab/start-over``  puts the edition of ``{"notebook": …}`` in the place of the learner's
``POST /cudalab/count-anew``  from now on no answer counts; all are kept

Where the server shows something else than a working copy, the page is empty and JupyterLab leaves it out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jupyter_server.base.handlers import APIHandler
from jupyter_server.utils import url_path_join
from tornado import web

from cudalab.course import start_page
from cudalab.course.progress import Progress
from cudalab.course.working_copy import WorkingCopy


class _Handler(APIHandler):
    @property
    def copy(self) -> WorkingCopy:
        """What the server shows."""
        return WorkingCopy(Path(self.settings["server_root_dir"]).expanduser())

    def known(self, name: str) -> str:
        if name not in self.copy.names():
            raise web.HTTPError(404, f"this is no notebook of the course: {name!r}")
        return name


class StartPage(_Handler):
    @web.authenticated
    def get(self) -> None:
        self.finish({"html": start_page.render(self.copy) if self.copy.names() else ""})


class Changes(_Handler):
    @web.authenticated
    def get(self) -> None:
        self.finish({"text": self.copy.told_changes(self.known(self.get_argument("notebook")))})


class StartOver(_Handler):
    @web.authenticated
    def post(self) -> None:
        backup = self.copy.start_over(self.known(str((self.get_json_body() or {}).get("notebook"))))
        self.finish({"backup": backup.name if backup else ""})


class Answers(_Handler):
    @web.authenticated
    def get(self) -> None:
        form = self.get_argument("form")
        try:
            text = Progress(self.copy.folder).export(form)
        except ValueError as error:
            raise web.HTTPError(400, str(error)) from None
        self.finish({"name": f"cudalab-answers.{form}", "text": text})


class CountAnew(_Handler):
    @web.authenticated
    def post(self) -> None:
        self.copy.count_anew(self.copy.names())
        self.finish({})


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": "cudalab.course.server"}]


def _load_jupyter_server_extension(app: Any) -> None:
    base = app.web_app.settings["base_url"]
    handlers = {
        "start": StartPage,
        "changes": Changes,
        "answers": Answers,
        "start-over": StartOver,
        "count-anew": CountAnew,
    }
    routes = [(url_path_join(base, "cudalab", name), handler) for name, handler in handlers.items()]
    app.web_app.add_handlers(".*$", routes)
