"""``python -m riskroute`` is the ``riskroute`` command."""

from riskroute.cli import main

if __name__ == "__main__":
    main()
