"""`batchq top`: the queues live in a terminal. Needs the extra `top`, which is textual.

`feed` asks the database, `words` says it, `grid` is the table, `page` what all pages have in
common; `overview`, `queue_page` and `job_page` are the pages, `dialogs` what they ask, `actions`
what they do. Text of others comes to the screen by `visible`, and never as markup.
"""
