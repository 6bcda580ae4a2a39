"""A tool of Debian's Python module asks a server for its jobs. The argument is the server's process number."""

import sys

import pmix


def check(good, what):
    if not good:
        print(f"FAILED: {what}")
        sys.exit(1)


tool = pmix.PMIxTool()
number = {"key": pmix.PMIX_SERVER_PIDINFO, "flags": 0, "value": int(sys.argv[1]), "val_type": pmix.PMIX_PID}
rc, me = tool.init([number])
check(rc == pmix.PMIX_SUCCESS, f"init: {rc}")
rc, answers = tool.query([{"keys": [pmix.PMIX_QUERY_NAMESPACES], "qualifiers": []}])
check(rc == pmix.PMIX_SUCCESS, f"query: {rc}")
print("jobs:", answers[0]["value"])
rc, servers = tool.get_servers()
check(rc == pmix.PMIX_SUCCESS and len(servers) == 1, f"servers: {rc} {servers}")
check(tool.finalize() == pmix.PMIX_SUCCESS, "finalize")
