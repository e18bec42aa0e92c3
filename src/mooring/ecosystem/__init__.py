"""The world around the gateway: registries of servers, and the files of AI clients and other tools."""
