"""OAuth 2.1 as its client: what servers ask for, who issues tokens, who we are there, what users grant."""
