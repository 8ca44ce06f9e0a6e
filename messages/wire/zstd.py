"""zstd compression, with the standard library's module from Python 3.14 on, and with its backport in older versions."""

import sys

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = ["zstd"]
