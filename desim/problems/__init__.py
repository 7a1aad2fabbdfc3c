"""The scheduling problems that desim simulates, one module or package per problem."""
