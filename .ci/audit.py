"""Known vulnerabilities in the versions that constraints.txt pins: ``python .ci/audit.py``, beside pip-audit.

Exit status: 0, none is known; 1, one is, or the audit itself is broken. Where the service that knows them can't be
reached, or knows nothing of a package, nothing is found: that is said, and is no failure.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

CONSTRAINTS = Path(__file__).with_name("constraints.txt")

IGNORED: dict[str, str] = {}
"""Why a vulnerability does not matter here, by the id that pip-audit names it by."""

UNREACHABLE = re.compile(r"ConnectionError|Connection (?:refused|reset)|Max retries|[Tt]imed out|ProxyError|SSLError")
PATIENCE = 120


def main() -> int:
    command = [sys.executable, "-m", "pip_audit", "-r", str(CONSTRAINTS), "--no-deps", "--disable-pip", "--format=json"]
    try:
        done = subprocess.run([*command, "--progress-spinner=off"], capture_output=True, text=True, timeout=PATIENCE)
        said, complaints = done.stdout, done.stderr
    except subprocess.TimeoutExpired:
        said, complaints = "", f"timed out after {PATIENCE} s"
    failed, lines = judge(said, complaints, IGNORED)
    print(*lines, sep="\n")
    return int(failed)


def judge(said: str, complaints: str, ignored: dict[str, str]) -> tuple[bool, list[str]]:
    """Whether the build fails, and what is to be said, of pip-audit's JSON and of what it said beside it."""
    try:
        found: list[dict[str, Any]] = json.loads(said)["dependencies"]
    except (ValueError, KeyError, TypeError):
        last = (complaints.strip().splitlines() or ["it said nothing"])[-1]
        if UNREACHABLE.search(complaints):
            return False, [f"NOTHING WAS AUDITED: the vulnerability service can't be reached ({last})"]
        return True, [f"the audit is broken: {last}"]
    lines, failed = [], False
    known = set()
    for package in found:
        for vulnerability in package.get("vulns", []):
            known.add(vulnerability["id"])
            name = f"{package['name']} {package['version']}: {vulnerability['id']}"
            if vulnerability["id"] in ignored:
                lines.append(f"{name}, ignored: {ignored[vulnerability['id']]}")
            else:
                failed = True
                fixed = ", ".join(vulnerability.get("fix_versions", [])) or "no version yet"
                lines.append(f"{name}, mended by {fixed}")
    skipped = [package["name"] for package in found if "skip_reason" in package]
    audited = len(found) - len(skipped)
    lines += [
        f"{id} is ignored, and nothing has it: remove it from IGNORED"
        for id in ignored
        if id not in known and not skipped
    ]
    if not audited:
        return failed, [*lines, f"NOTHING WAS AUDITED: the service knows none of these {len(found)} packages"]
    verdict = "vulnerable" if failed else "no vulnerability that matters is known"
    lines.append(f"{audited} of {len(found)} packages audited, {verdict}")
    if skipped:
        lines.append(f"not audited, since the service does not know them: {', '.join(skipped)}")
    return failed, lines


if __name__ == "__main__":
    sys.exit(main())
