"""Reproduce a table or figure of the papers: ``./run reproduce NAME``."""

from reproduction.command import main

if __name__ == "__main__":
    main()
