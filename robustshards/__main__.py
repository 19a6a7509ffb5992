"""``python -m robustshards``: the command, where it is not on the path."""

from pipeline.cli.start import main

if __name__ == "__main__":
    main()
