"""These models are so small that threads would only wait for each other."""

from threads import one_thread  # noqa: F401
