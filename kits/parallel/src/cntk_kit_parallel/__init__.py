"""What authors of communicators share: a mesh of TCP connections, messages, background work."""
