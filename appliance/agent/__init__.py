"""The agent: runs on a managed machine what its document says, as often as it should, and reports what came of it.

A house of its own: standard library only, relative imports, nothing outside this folder. `README.md` here is the
contract with the appliance.
"""

VERSION = "0.1.0"
