"""The web form: what is wrong in it is said there, before anything is sent."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import flask
from flask_login import current_user

from llmload.errors import SetupError
from llmload.load_config import read_load
from llmload.swarm import shapes
from llmload.swarm.options import OPTIONS

if TYPE_CHECKING:
    from llmload.swarm.session import Session

log = logging.getLogger("llmload")


def guard_start(app: flask.Flask, session: Session) -> None:
    """Check the form of every start button, and the server behind it, before Locust starts or changes a run."""
    prefix = session.setup.options.get("web_base_path") or ""

    def check() -> Any:
        request = flask.request
        if request.method != "POST" or request.path != f"{prefix}/swarm":
            return None
        if session.web_ui.web_login and not current_user.is_authenticated:
            return None  # Locust's view answers; the probe would carry the key to whatever host a stranger names
        try:
            _check_form(_form(request.form, session.environment.host), session)
        except SetupError as error:
            log.error("%s", error)
            return flask.jsonify({"success": False, "message": _said(error), "host": session.environment.host})
        return None

    app.before_request(check)


def _check_form(form: Mapping[str, str], session: Session) -> None:
    if session.ended.is_set():
        options = {**session.setup.options, **form}
        shapes.choose(session, read_load(options))
        session.setup.prepare(options)
    elif session.stopping:
        raise SetupError("the run before is still ending", "try again in a moment")
    elif changed := [name for name, value in form.items() if value != _shown(session.setup.options.get(name))]:
        # Locust would take the values and show them, and the run would go on with the old ones
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in changed)
        raise SetupError(f"{flags} cannot change while a run goes on", "stop it and start a new one")


def _form(form: Any, shown_host: str | None) -> dict[str, str]:
    """Return what the page changes or repeats; the host as it is shown stands for the one that was given."""
    names = {option.name for option in OPTIONS if option.in_web} | {"host"}
    return {name: value for name, value in form.items() if name in names and (name, value) != ("host", shown_host)}


def _shown(value: Any) -> str:
    """Return an option's value as the page posts it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _said(error: SetupError) -> str:
    """Return the error's line, with the place of an option that the page folds away."""
    text = str(error)
    ours = any(text.startswith((f"{option.flag} ", f"{option.flag}: ")) for option in OPTIONS if option.in_web)
    return f"{text} (see Custom parameters)" if ours else text
