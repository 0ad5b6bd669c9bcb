"""What an experiment is, how it is expanded from a configuration, estimated and run; the command line."""
