"""What every workload needs: a server, pgbench, meters, statistics and the report."""
