"""Entry point of ``python -m riskroute``, which is the ``riskroute`` command."""

from riskroute.cli import main

if __name__ == "__main__":
    main()
