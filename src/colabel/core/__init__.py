"""What every room stands on: names of arrays, sums, threads, files, progress, label features."""
