#!/usr/bin/python3
"""Prints the Debian package that owns each file: owners.py PATH..."""
import os
import subprocess
import sys


def owner(path):
    """The package that dpkg names for `path`, as `name` or `name:architecture`."""
    candidates = []
    for each in (path, os.path.realpath(path)):
        # Since /lib is a link to /usr/lib, dpkg may know a file by either name.
        candidates += [each, each[4:] if each.startswith("/usr/") else
                       "/usr" + each]
    for candidate in candidates:
        found = subprocess.run(["dpkg-query", "--search", candidate],
                               stdout=subprocess.PIPE, text=True,
                               stderr=subprocess.DEVNULL, check=False)
        if found.returncode == 0:
            return found.stdout.splitlines()[0].rsplit(": ", 1)[0]
    return None


def main():
    for path in sys.argv[1:]:
        package = owner(path)
        if package is None:
            sys.exit(f"owners.py: no Debian package owns '{path}'")
        print(package)


if __name__ == "__main__":
    main()
