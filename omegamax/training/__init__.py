"""The training loop of every recipe, and what it needs: runs, checkpoints, schedules, processes."""
