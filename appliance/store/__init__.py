"""The only SQL, and the only importer of apsw."""
