"""Speed, memory and accuracy, measured by commands anyone can run."""
