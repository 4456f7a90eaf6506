"""Plain-data records of cases, findings, reports, views of schedules, and jobs for workers; no code here judges a
program or imports a third-party package.
"""
