"""Programs that run in a process of their own, and how the bench talks with them."""
