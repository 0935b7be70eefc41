"""The README's handler: `batchq worker --handlers my_jobs` in this folder runs it."""

from pybatchq import PermanentError, handler


@handler("send_receipt")
async def send_receipt(payload, job):
    if "order" not in payload:
        raise PermanentError("no order")  # do not try again
    print(f"order {payload['order']}, attempt {job.attempt}")
    return {"sent": True}  # kept as the job's result
