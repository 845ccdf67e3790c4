# A plugin of pytest: one line per test on the standard output, as gates/run reads them, also when the output is captured.

import os

lines = os.fdopen(os.dup(1), "w", buffering=1)
failed = set()


def pytest_runtest_logreport(report):
    if report.failed and report.nodeid not in failed:
        failed.add(report.nodeid)
        lines.write(f"\nFAIL {report.nodeid}\n")
    elif report.skipped:
        lines.write(f"\nskip {report.nodeid}\n")
    elif report.when == "teardown" and report.nodeid not in failed:
        lines.write(f"\nok {report.nodeid}\n")


def pytest_collectreport(report):
    if report.failed:
        lines.write(f"\nFAIL {report.nodeid}\n")
