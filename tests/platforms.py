"""What only some systems have."""

from __future__ import annotations

import os
import signal

import pytest

with_pipes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
with_signals = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals of Unix")
