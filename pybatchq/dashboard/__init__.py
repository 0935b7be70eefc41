"""The dashboard: pages for people, served by the API's process beside its JSON.

Pages are rendered here and work without a script; what is live comes by one event stream a page.
Nothing is loaded from outside. A page calls functions of batchq, as the API does, and has no logic
of its own.
"""
