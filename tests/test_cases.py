"""Every case from the field that this package answers is held by a test that names it."""

import re
from pathlib import Path

CASES = """
SSE-01 SSE-02 SSE-03 SSE-05 SSE-07 SSE-08 SSE-09 SSE-10 SSE-13 SSE-15 SSE-17 SSE-18
TOK-01 TOK-02 TOK-03 TOK-04 TOK-08 TOK-09 TOK-11 TOK-12 TOK-13 TOK-15 TOK-16 TOK-17
USE-01 USE-02 USE-03 USE-04 USE-06 USE-08 USE-10
ERR-01 ERR-02 ERR-03 ERR-04 ERR-08 ERR-09 ERR-10
HTTP-01 HTTP-02 HTTP-04 HTTP-05 HTTP-06 HTTP-08 HTTP-12 HTTP-14
TMO-01 TMO-02 TMO-04 TMO-05 TMO-06 TMO-07
RTL-02 RTL-04
STAT-01 STAT-02 STAT-03 STAT-05 STAT-06 STAT-09 STAT-10 STAT-12
UNI-01 UNI-04 UNI-05
MEM-01 MEM-03 MEM-05 MEM-06
CLK-01 CLK-02
LOAD-01 LOAD-03 DAT-01 DAT-06 DIST-08
INF-01 INF-02 INF-03 INF-04 INF-05 INF-06 INF-08 DIST-13 CFG-02
SEC-01 SEC-02 SEC-03 SEC-05
"""
"""Ids by group; HTTP-10 waits for HTTP/2."""


def named_cases():
    """Return case id → names of the tests whose docstring has it."""
    found = {}
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        for test, text in re.findall(
            r'^def (test_\w+)\(.*?:\n    """(.*?)"""', path.read_text(), re.DOTALL | re.MULTILINE
        ):
            for case in re.findall(r"\b[A-Z]{2,4}-\d\d\b", text):
                found.setdefault(case, []).append(f"{path.name}::{test}")
    return found


def test_no_case_is_without_a_test():
    """The list above is complete for what stands; a case whose test goes is missed here."""
    found = named_cases()
    assert [case for case in CASES.split() if case not in found] == []
