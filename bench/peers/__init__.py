"""The rivals: reference tables of our own making (.sql) and real products."""
