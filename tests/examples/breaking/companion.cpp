int companion() { return 1; }
