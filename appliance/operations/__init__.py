"""Use cases: one plain function each, `(tx, command) -> result`. None begins, commits or waits."""
