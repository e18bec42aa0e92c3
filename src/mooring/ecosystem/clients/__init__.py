"""AI clients: where each keeps its list of servers, and how ours get into it and out again."""
