"""``python -m specdec_core.cli`` is the command ``specdec``."""

from specdec_core.cli import main

if __name__ == "__main__":
    main()
