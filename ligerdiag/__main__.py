"""The command `ligerdiag`, and `python -m ligerdiag` where its script is not on the path."""

from ligerdiag.cache_root import find_cache_root, keep_own_bytecode


def main() -> None:
    """Runs the command line, see `cli.main`."""
    keep_own_bytecode(find_cache_root())
    from ligerdiag.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
