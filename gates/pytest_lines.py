# A plugin of pytest: one line per test on the standard output, as gates/run reads them, also when the output is captured.

import os

lines = os.fdopen(os.dup(1), "w", buffering=1)
told = set()
prefix = os.environ.get("RESULT_PREFIX", "")


def pytest_runtest_logreport(report):
    if report.nodeid in told or report.passed and report.when != "teardown":
        return
    told.add(report.nodeid)
    lines.write(f"\n{'FAIL' if report.failed else 'skip' if report.skipped else 'ok'} {prefix}{report.nodeid}\n")


def pytest_collectreport(report):
    if report.failed:
        lines.write(f"\nFAIL {prefix}{report.nodeid}\n")
