"""How much: rate limits and concurrency limits, in memory or shared through Redis."""
