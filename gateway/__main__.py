# SPDX-License-Identifier: GPL-3.0-or-later
"""``python -m gateway`` is the ``gateway`` command."""

from gateway.cli.app import main

if __name__ == "__main__":
    main()
