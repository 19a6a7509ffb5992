"""``python -m robustshards``: the command line, also where the program is not on PATH."""

from pipeline.cli.start import main

if __name__ == "__main__":
    main()
