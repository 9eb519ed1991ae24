"""JUnit XML, which every CI system reads: validity is a test case, and so is each objective.

No I/O. Two suites: `run` (is the run valid, was the client fast enough) and `objectives`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from xml.etree import ElementTree as Xml

from llmload.metrics.objective import shown
from llmload.reports.numbers import MISSING, plain
from llmload.reports.sections import CLIENT

_COUNTS = ("started", "ok", "failed", "cancelled", "in_flight")


def render(summary: Mapping[str, Any], info: Mapping[str, Any]) -> str:
    """Return the XML document.

    Args:
        summary: of the run.
        info: the content of its run.json, for the properties.
    """
    seconds = _seconds(info)
    suites = Xml.Element("testsuites", name="llmload")
    _suite(suites, "run", list(_run_cases(summary)), seconds, _properties(summary, info))
    if objectives := summary.get("objectives"):
        _suite(suites, "objectives", [_objective_case(one) for one in objectives], seconds, {})
    for name in ("tests", "failures", "errors", "skipped"):
        suites.set(name, str(sum(int(suite.get(name, "0")) for suite in suites)))
    suites.set("time", f"{seconds:.3f}")
    Xml.indent(suites)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + Xml.tostring(suites, encoding="unicode") + "\n"


def _suite(
    suites: Xml.Element, name: str, cases: Sequence[Xml.Element], seconds: float, properties: Mapping[str, str]
) -> None:
    failures = sum(case.find("failure") is not None for case in cases)
    counts = {"tests": str(len(cases)), "failures": str(failures), "errors": "0", "skipped": "0"}
    suite = Xml.SubElement(suites, "testsuite", {"name": f"llmload.{name}", **counts, "time": f"{seconds:.3f}"})
    if properties:
        box = Xml.SubElement(suite, "properties")
        for key, value in properties.items():
            Xml.SubElement(box, "property", name=plain(key), value=plain(value))
    suite.extend(cases)


def _run_cases(summary: Mapping[str, Any]) -> Iterator[Xml.Element]:
    run, client = summary["run"], summary["client"]
    yield _case(
        "run", "the run is valid", None if run["valid"] else "; ".join(run["reasons"]) or "not judged", "invalid"
    )
    missed = CLIENT["client"][1] if client["verdict"] == "client" else None
    yield _case("run", "the client was not the limit", missed and f"{missed}: {client['why']}", "client", client["why"])


def _objective_case(one: Mapping[str, Any]) -> Xml.Element:
    value = MISSING if one["value"] is None else shown(one["value"], one["unit"], beside=one["limit"])
    text = f"{one['why']} (value {value}, n {one['n']:,})"
    scope = f".{one['scope']}" if one["scope"] else ""
    return _case(f"objectives{scope}", one["text"], None if one["met"] else text, "objective", text)


def _case(scope: str, name: str, failure: str | None, kind: str, out: str | None = None) -> Xml.Element:
    # no time of its own: a case is a verdict on the whole run
    case = Xml.Element("testcase", classname=f"llmload.{plain(scope)}", name=plain(name), time="0")
    if failure is not None:
        Xml.SubElement(case, "failure", message=plain(failure), type=kind).text = plain(failure)
    elif out:
        Xml.SubElement(case, "system-out").text = plain(out)
    return case


def _properties(summary: Mapping[str, Any], info: Mapping[str, Any]) -> dict[str, str]:
    load, ledger = summary["run"]["load"], summary["ledger"]
    found: dict[str, Any] = {
        "run": summary["run"]["id"],
        "started_at": summary["run"]["started_at"],
        "ended_by": summary["run"]["ended_by"],
        "model": load["model"],
        "users": load["users"],
        "targets": ", ".join(load["targets"]) or None,
        **{f"versions.{name}": value for name, value in (info.get("versions") or {}).items()},
        **{f"requests.{name}": ledger[name] for name in _COUNTS},
    }
    return {name: str(value) for name, value in found.items() if value is not None}


def _seconds(info: Mapping[str, Any]) -> float:
    start, end = info.get("started_at"), info.get("ended_at")
    return max(0.0, float(end) - float(start)) if start is not None and end is not None else 0.0
