"""``python -m deltabook``: the same as the console script."""

from deltabook.cli import main

if __name__ == "__main__":
    main()
