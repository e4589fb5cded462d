"""The plug-in system: hook specifications, registry, discovery, and what people see of them."""
