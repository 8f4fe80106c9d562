#!/usr/bin/env python3
"""format.py - every C file is as clang-format 14 leaves it. Usage: format.py [ROOT] [--fix]

Other versions of clang-format disagree with each other in details, so only 14 (Debian 12's) is asked;
without it the test is skipped (exit status 77)."""
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from check import Check


def find_clang_format():
    for name in ('clang-format-14', 'clang-format'):
        path = shutil.which(name)
        if path:
            version = subprocess.run([path, '--version'], capture_output=True, text=True, check=False)
            if re.search(r'version 14\.', version.stdout):
                return path
    return None


def main(arguments):
    roots = [a for a in arguments if not a.startswith('--')]
    here = os.path.dirname(os.path.abspath(__file__))
    root = roots[0] if roots else os.path.dirname(os.path.dirname(here))
    tool = find_clang_format()
    if not tool:
        print('skipped: no clang-format 14')
        return 77
    files = [f for f in Check(root).sources if not f.endswith('.cu')]
    mode = ['-i'] if '--fix' in arguments else ['--dry-run', '-Werror', '--ferror-limit=1']
    halves = [files[0::2], files[1::2]]  # two processes: the check has to stay quick
    running = [subprocess.Popen([tool, '--style=file', *mode, *half], cwd=root) for half in halves if half]
    failed = any([p.wait() != 0 for p in running])
    print('style: not formatted; tests/style/format.py --fix' if failed else 'style: formatted')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
