"""What is allowed: Cedar policies about tools, prompts and resources."""
