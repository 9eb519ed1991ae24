"""The web form: what is wrong in it is said there, before anything is sent."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import flask

from llmload.errors import SetupError
from llmload.swarm.options import OPTIONS

if TYPE_CHECKING:
    from llmload.swarm.session import Session

log = logging.getLogger("llmload")


def guard_start(app: flask.Flask, session: Session) -> None:
    """Check the form of every start button, and the server behind it, before Locust starts the run."""
    prefix = session.options.get("web_base_path") or ""

    def check() -> Any:
        request = flask.request
        if request.method != "POST" or request.path != f"{prefix}/swarm" or not session.ended.is_set():
            return None
        try:
            session.prepare({**session.options, **_form(request.form)})
        except SetupError as error:
            log.error("%s", error)
            return flask.jsonify({"success": False, "message": str(error), "host": session.environment.host})
        return None

    app.before_request(check)


def _form(form: Any) -> dict[str, Any]:
    names = {option.name for option in OPTIONS if option.in_web} | {"host"}
    return {name: value for name, value in form.items() if name in names}
