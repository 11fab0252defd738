"""The mixture over label dependency sets (LDS): learning by EM, and what it says of features."""
