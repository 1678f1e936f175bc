"""`python -m constrained`: the command `constrained`."""

from constrained.cli import main

if __name__ == "__main__":
    main()
