"""``python -m deltabook``: runs the console script."""

from deltabook.cli import main

if __name__ == "__main__":
    main()
