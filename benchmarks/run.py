"""All speed and memory benchmarks, one after another.

Usage: python -m benchmarks.run
"""

from __future__ import annotations

from benchmarks import memory, speed


def main() -> None:
    """Run them."""
    speed.main()
    memory.main()


if __name__ == "__main__":
    main()
