#!/usr/bin/env python3
"""Tokenizer speed beside the reference library, one thread each, in one run.

usage: bench_tokenizer.py PROGRAM TEXT TOKENIZER_JSON...   (PROGRAM is the built bench_tokenizer)

Prints a line for each tokenizer: MB/s of both and their ratio. Needs the Python package `tokenizers`.
"""
import json
import os
import subprocess
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"  # before the import: the library reads it once


def reference(path, text):
    from tokenizers import Tokenizer
    start = time.perf_counter()
    tokenizer = Tokenizer.from_file(path)
    loaded = time.perf_counter()
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    return loaded - start, time.perf_counter() - loaded, len(ids)


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    program, text_path, *files = sys.argv[1:]
    with open(text_path, encoding="utf-8", newline="") as f:
        text = f.read()
    size = len(text.encode())
    for path in files:
        ours = json.loads(subprocess.check_output([program, path, text_path, "2"]))
        load, took, n = reference(path, text)
        same = "equal counts" if n == ours["ids"] else f"COUNTS DIFFER {ours['ids']} {n}"
        print(f"{path}: {ours['mb_per_s']:.1f} MB/s, reference {size / took / 1e6:.1f} MB/s, "
              f"ratio {ours['mb_per_s'] / (size / took / 1e6):.1f}; "
              f"load {ours['load_s']:.3f} s, reference {load:.3f} s; {same}")


if __name__ == "__main__":
    main()
