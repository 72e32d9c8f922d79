"""Returns: what each agent reaches, beside others and beside random play."""
