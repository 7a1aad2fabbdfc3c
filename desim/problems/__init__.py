"""The systems that desim simulates, one module each."""
