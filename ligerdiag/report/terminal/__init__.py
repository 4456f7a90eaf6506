"""The report for a terminal, as styled spans and tables; only `full_report` uses the library rich."""
