"""The README is true: its option table, its demo output, and the files that it points to.

python -m tests.test_readme      writes the option table and the output of a demo run into README.md
"""

import re
import subprocess

from llmload.swarm.options import OPTIONS
from tests.locusts import LLMLOAD, ROOT

README = ROOT / "README.md"


def block(text, name):
    """Return what stands between the two marks of a name."""
    return text.split(f"<!-- {name}:begin -->\n")[1].split(f"<!-- {name}:end -->")[0]


def with_block(text, name, inside):
    """Return the text with another inside between the marks."""
    before, rest = text.split(f"<!-- {name}:begin -->\n")
    return f"{before}<!-- {name}:begin -->\n{inside}<!-- {name}:end -->{rest.split(f'<!-- {name}:end -->')[1]}"


def option_table():
    """Return the options as a Markdown table."""
    rows = ["| option | default | |", "|---|---|---|"]
    for option in OPTIONS:
        flag = f"`{option.flag} {option.metavar}`" if option.metavar else f"`{option.flag}`"
        rows.append(f"| {flag} | {option.shown_default} | {option.help} |")
    return "\n".join(rows) + "\n"


def demo(folder, *args):
    """Run the demo and return its exit code and what it printed from the summary on."""
    done = subprocess.run([LLMLOAD, "demo", "--run-dir", folder, *args], capture_output=True, text=True, cwd=ROOT)
    return done.returncode, done.stdout[done.stdout.index("\nrun ") + 1 :].rstrip()


def shape(text):
    """Return the lines of a summary without their numbers, and without those that a run need not have."""
    lines = [re.sub(r"[-\d.,:/%+TZ()]+\w*", "#", line) for line in text.splitlines() if line[:1] != " "]
    lines = [" ".join(re.sub(r"runs#?\S*|/\S+", "#", line).split()) for line in lines]
    varying = ("!", "client", "run", "used", "#", "Record", "Report", "finding")
    return [line for line in lines if line and not line.startswith(varying)]


def test_the_option_table_is_the_options():
    """Every option with its default and help, as the program has them."""
    assert block(README.read_text(), "options") == option_table()


def test_the_demo_prints_what_the_readme_shows(tmp_path):
    """`make demo`'s command runs, exits 0, and its summary has the lines of the one in the README."""
    code, text = demo(tmp_path, "--seconds", "5", "--users", "4")
    assert code == 0
    shown = block(README.read_text(), "demo").strip().removeprefix("```text").removesuffix("```")
    assert shape(shown) == shape(text)
    assert "TTFT" in text


def test_links_lead_somewhere():
    """Every relative link of the README and the guides points to a file."""
    for page in (README, *sorted((ROOT / "docs").glob("*.md"))):
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


if __name__ == "__main__":
    page = with_block(README.read_text(), "options", option_table())
    output = demo("runs")[1]
    README.write_text(with_block(page, "demo", f"```text\n{output}\n```\n"))
