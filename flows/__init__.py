"""What Prefect runs; tasks are thin and call rcll."""
