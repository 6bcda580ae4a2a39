"""A server of Debian's Python module: a job of two clients. The argument is the client's script."""

import os
import socket
import subprocess
import sys

import pmix


def status(found, what):
    # The bindings return the second status as the library gives it.
    if found not in (pmix.PMIX_SUCCESS, pmix.PMIX_OPERATION_SUCCEEDED):
        print(f"FAILED: {what}: {found}")
        sys.exit(1)


def info(key, value, kind):
    return {"key": key, "flags": 0, "value": value, "val_type": kind}


def connected(proc):
    print(f"client {proc['rank']} is here")
    return pmix.PMIX_OPERATION_SUCCEEDED


server = pmix.PMIxServer()
directory = os.environ["TMPDIR"]
options = [
    info(pmix.PMIX_SERVER_TMPDIR, directory, pmix.PMIX_STRING),
    info(pmix.PMIX_SYSTEM_TMPDIR, directory, pmix.PMIX_STRING),
]
status(server.init(options, {"clientconnected": connected}), "init")
rc, nodes = server.generate_regex([socket.gethostname()])
status(rc, "generate_regex")
rc, ranks = server.generate_ppn(["0,1"])
status(rc, "generate_ppn")
job = [
    info(pmix.PMIX_NODE_MAP, nodes, pmix.PMIX_REGEX),
    info(pmix.PMIX_PROC_MAP, ranks, pmix.PMIX_REGEX),
    info(pmix.PMIX_JOB_SIZE, 2, pmix.PMIX_UINT32),
    info(pmix.PMIX_UNIV_SIZE, 2, pmix.PMIX_UINT32),
    info(pmix.PMIX_MAX_PROCS, 2, pmix.PMIX_UINT32),
    info(pmix.PMIX_LOCAL_SIZE, 2, pmix.PMIX_UINT32),
]
status(server.register_nspace("python", 2, job), "register_nspace")
clients = []
for rank in range(2):
    proc = {"nspace": "python", "rank": rank}
    status(server.register_client(proc, os.geteuid(), os.getegid()), "register_client")
    environment = dict(os.environ)
    status(server.setup_fork(proc, environment), "setup_fork")
    clients.append(subprocess.Popen([sys.executable, "-W", "ignore", sys.argv[1]], env=environment))
for client in clients:
    status(client.wait(), "end of a client")
status(server.finalize(), "finalize")
print("python server done")
