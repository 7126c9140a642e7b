"""``python -m loopeng`` is the command line."""

from loopeng.cli import main

if __name__ == "__main__":
    main()
