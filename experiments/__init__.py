"""Tables and figures of the papers that desim reproduces, one module each."""
