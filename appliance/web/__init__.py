"""HTTP edges."""
