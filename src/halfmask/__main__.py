"""`python -m halfmask` is `halfmask`."""

from halfmask.cli.main import entry

if __name__ == "__main__":
    entry()
