"""The appliance: plans, deployments and what came of them, in one process and one SQLite file."""

__version__ = "0.1.0"
