"""The Heat-compatible edge. Its README maps each endpoint to the operation behind it and says where we differ from Heat on purpose."""
