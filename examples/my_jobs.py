"""The README's handler: `batchq worker --handlers my_jobs` in this folder runs it."""

from dataclasses import dataclass

from pybatchq import handler


@dataclass
class Receipt:
    order: int
    copies: int = 1


@handler("send_receipt")
async def send_receipt(payload: Receipt, job):
    job.log.info("sending", extra={"order": payload.order})
    return {"sent": payload.copies}  # kept as the job's result
