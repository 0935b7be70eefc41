"""The HTTP API: aiohttp around `pybatchq.calls`, with no queue logic of its own.

A request goes down these layers, and imports go the same way only:

server      sockets, signals, TLS, slow clients
app         the application of one process: what it owns, and the table of routes
table       all routes, from the modules that have some: jobs, probes, home, …
routes      one route: authorisation, parameters, body, then its handler with a Call
services    what handlers work with: the database, the gatherer, the poller, the guard
gather, finished, auth      on top of
pool        connections, with a deadline for everything
models, bodies, errors        what goes in and out
"""
