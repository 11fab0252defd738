"""``python -m colabel`` is the command ``colabel``."""

from colabel.cli import main

if __name__ == "__main__":
    main()
