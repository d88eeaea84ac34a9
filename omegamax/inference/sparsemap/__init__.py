"""SparseMAP: an active set of structures, found by asking an oracle for the best one."""
