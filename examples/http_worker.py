"""A worker that speaks nothing but HTTP: this file and Python's standard library.

    python http_worker.py http://localhost:8080 mail default

It works on these queues in order of preference until SIGTERM. BATCHQ_TOKEN is the token, if one is
needed, with the scope `work`. Any language can do the same; docs/api-work.md has the requests.
"""

import json
import os
import signal
import socket
import sys
import threading
import time
import urllib.error
import urllib.request

NAME = f"{socket.gethostname()}:{os.getpid()}"
LEASE_S = float(os.environ.get("LEASE_S", "60"))
stopping = threading.Event()


def shout(payload, _asked_to_stop):
    return {"text": payload["text"].upper()}  # kept as the job's result


def sleep(payload, asked_to_stop):
    if asked_to_stop.wait(payload["seconds"]):
        raise InterruptedError("asked to stop")


HANDLERS = {"shout": shout, "sleep": sleep}


def post(path, body):
    """The answer. Asks again while the API or its database is away: that does no harm."""
    request = urllib.request.Request(API + path, json.dumps(body).encode())  # noqa: S310
    request.add_header("Content-Type", "application/json")
    if "BATCHQ_TOKEN" in os.environ:
        request.add_header("Authorization", f"Bearer {os.environ['BATCHQ_TOKEN']}")
    while True:
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
                return json.load(answer)
        except urllib.error.HTTPError as error:
            said = json.load(error)
            if error.code not in (429, 503):
                raise SystemExit(f"{said['code']} {said['message']}") from None
            print(f"{said['message']}: trying again", file=sys.stderr)
            time.sleep(float(error.headers["Retry-After"]))
        except OSError as error:
            print(f"{error}: trying again", file=sys.stderr)
            time.sleep(2)


def beat(lease, every_s, ended, asked_to_stop):
    """Extend the lease until the job has ended; tell it when it is to stop."""
    while not ended.wait(every_s):
        answer = post("/work/extend", {"leases": [lease], "lease_for": LEASE_S})
        state = answer["leases"][0]["state"]  # extended, cancelled, timed_out, lost or deferred
        if state not in ("extended", "deferred"):
            asked_to_stop.set()
        if state == "lost":
            return


def run(job):
    """What to hand in for a job: a completion or a failure."""
    lease = {"job_id": job["job_id"], "lease_id": job["lease_id"]}
    ended, asked_to_stop = threading.Event(), threading.Event()
    every_s = job["lease_for"] / 3
    heart = threading.Thread(target=beat, args=(lease, every_s, ended, asked_to_stop), daemon=True)
    heart.start()
    try:
        if job["kind"] not in HANDLERS:
            return "failed", {**lease, "error": f"no handler for {job['kind']}", "permanent": True}
        result = HANDLERS[job["kind"]](job["payload"], asked_to_stop)
    except Exception as error:  # noqa: BLE001
        return "failed", {**lease, "error": f"{type(error).__name__}: {error}"}
    else:
        return "completed", {**lease, "result": result}
    finally:
        ended.set()
        heart.join()


def work(queues):
    """One request a turn: it hands in what ended, and waits for the next job."""
    outcomes = {}
    while not stopping.is_set():
        turn = {"queues": queues, "worker": NAME, "lease_for": LEASE_S, "wait": 2, **outcomes}
        answer = post("/work/settle-and-lease", turn)
        outcomes = {}
        for job in answer["jobs"]:
            list_, outcome = run(job)
            outcomes.setdefault(list_, []).append(outcome)
            print(f"job {job['job_id']} {list_}", flush=True)
    post("/work/settle-and-lease", {"n": 0, **outcomes})


if __name__ == "__main__":
    API = sys.argv[1].rstrip("/")
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, lambda *_: stopping.set())
    work(sys.argv[2:] or ["default"])
