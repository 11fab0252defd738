"""What every room stands on: names of arrays, threads, files, progress, label features."""
