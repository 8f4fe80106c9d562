#!/usr/bin/env python3
"""check.py - the style rules that a machine can judge. Usage: check.py [ROOT] [--quiet]

Fails (exit status 1, one line each: path:line: rule: why) on function length, file length, parameter
count, nesting, the include layers and order, undocumented public functions, family names outside their
folder, leftovers (task marks, commented-out code, machine paths). Prints the other bars as a table.
exceptions.txt names what may differ. Formatting is format.py's, grammar csource.py's."""
import fnmatch
import os
import re
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from csource import Source

MAX_FUNCTION, MAX_FUNCTION_P90, MAX_FILE, MAX_PARAMS, MAX_DEPTH, MAX_PUBLIC = 120, 50, 1200, 6, 4, 80

# Each layer and all that it may include, besides itself and the public header.
_BELOW_ENGINE = 'base tensor graph ops kernels backend blocks families formats tokenizer media cache'
LAYERS = {name: set(below.split()) for name, below in {
    'base': '',
    'tensor': 'base',
    'graph': 'base tensor',
    'ops': 'base tensor graph',
    'kernels': 'base tensor graph ops',
    'backend': 'base tensor graph ops kernels',
    'blocks': 'base tensor graph ops',
    'families': 'blocks',
    'formats': 'base tensor',
    'media': 'base tensor',
    'tokenizer': 'base tensor',
    'cache': _BELOW_ENGINE,
    'engine': _BELOW_ENGINE,
    'dist': _BELOW_ENGINE + ' engine',
    'train': _BELOW_ENGINE + ' engine',
    'pipeline': _BELOW_ENGINE + ' engine',
    'server': 'base',
    'cli': 'base server',
}.items()}
SEES_ALL = re.compile(r'src/cli/((cmd_diff|cmd_bench|parity_\w+)\.c|parity\.h)$')
LEVEL_SUFFIX = re.compile(r'_(avx2|avxvnni|avx512|bf16|amx|neon|dotprod|i8mm)\.c$')


class Check:
    def __init__(self, root):
        self.root, self.found, self.sources = root, [], {}
        self.exceptions = self._read_exceptions()
        self.files = self._tracked()
        for path in self.files:
            if path.endswith(('.c', '.h', '.cu')):
                self.sources[path] = Source(path, self._read(path))

    def _read(self, path):
        with open(os.path.join(self.root, path), encoding='utf-8', errors='replace') as f:
            return f.read()

    def _tracked(self):
        """What git would commit; in a tree without git (a release archive) everything outside build/."""
        git = subprocess.run(['git', '-C', self.root, 'ls-files', '-z', '-co', '--exclude-standard'],
                             capture_output=True, check=False)
        if git.returncode == 0:
            names = git.stdout.decode().split('\0')
        else:
            names = []
            for folder, subfolders, files in os.walk(self.root):
                subfolders[:] = [d for d in subfolders if not d.startswith(('.', 'build'))]
                names += [os.path.relpath(os.path.join(folder, f), self.root) for f in files]
        return sorted(n for n in names if n and os.path.isfile(os.path.join(self.root, n)))

    def _read_exceptions(self):
        path, result = 'tests/style/exceptions.txt', []
        if os.path.exists(os.path.join(self.root, path)):
            for number, line in enumerate(self._read(path).split('\n'), 1):
                parts = line.split(None, 2)
                if parts and not line.startswith('#'):
                    if len(parts) < 3:
                        self.found.append(f'{path}:{number}: exception: no reason is given')
                        continue
                    result.append([parts[0], parts[1], number, False])
        return result

    def fail(self, rule, path, line, why, function=None):
        names = [path] + ([f'{path}:{function}'] if function else [])
        for exception in self.exceptions:
            if exception[0] == rule and any(fnmatch.fnmatch(n, exception[1]) for n in names):
                exception[3] = True
                return
        self.found.append(f'{path}:{line}: {rule}: {why}')

    def run(self):
        for source in self.sources.values():
            self.sizes(source)
            self.head(source)
            self.layers(source)
            self.include_order(source)
            self.leftover_code(source)
        self.function_p90()
        self.public_header()
        self.family_names()
        self.leftover_text()
        for rule, pattern, number, used in self.exceptions:
            if not used:
                self.found.append(f'tests/style/exceptions.txt:{number}: exception: '
                                  f'{rule} {pattern} excuses nothing')
        return sorted(self.found)

    def sizes(self, s):
        if len(s.lines) > MAX_FILE:
            self.fail('file-length', s.path, 1, f'{len(s.lines)} lines, at most {MAX_FILE}')
        for f in s.functions:
            for rule, value, most, unit in (('function-length', f.length, MAX_FUNCTION, 'lines'),
                                            ('parameters', f.n_params, MAX_PARAMS, 'parameters'),
                                            ('nesting', f.depth, MAX_DEPTH, 'levels')):
                if value > most:
                    self.fail(rule, s.path, f.first, f'{f.name} has {value} {unit}, at most {most}',
                              f.name)

    def head(self, s):
        name = os.path.basename(s.path)
        if not re.match(r'/\*\s*' + re.escape(name) + r' - ', s.text):
            self.fail('head', s.path, 1, f'must open with "/* {name} - what it owns"')
        if s.path.endswith('.h') and not re.search(r'^#ifndef (\w+)\n#define \1\n', s.text, re.M):
            self.fail('head', s.path, 1, 'no include guard')

    def layers(self, s):
        parts = s.path.split('/')
        for line, name, is_system in s.includes():
            self.intrinsics(s, line, name)
            if is_system:
                continue
            if parts[0] == 'include':
                self.fail('layer', s.path, line, 'the public header includes only system headers')
            elif parts[0] == 'src':
                self.layer_of_include(s, line, name, parts[1])
            elif parts[0] == 'examples':
                self.fail('layer', s.path, line, 'examples see the installed header only')

    def layer_of_include(self, s, line, name, layer):
        own_list = name.startswith(layer + '/') and name.endswith(('.def', '.inc'))
        if name == 'quern.h' or SEES_ALL.match(s.path) or own_list:
            return
        if '/' not in name or 'src/' + name not in self.sources:
            self.fail('layer', s.path, line, f'"{name}" is no file; write "folder/file.h" below src/')
            return
        target = name.split('/')[0]
        if layer not in LAYERS:
            self.fail('layer', s.path, line, f'src/{layer} is no layer')
        elif target != layer and target not in LAYERS[layer]:
            self.fail('layer', s.path, line, f'{layer} may not include {target} ("{name}")')

    def intrinsics(self, s, line, name):
        if not re.match(r'(\w*mmintrin|x86intrin|arm_neon)\.h$', name):
            return
        if not LEVEL_SUFFIX.search(s.path) and not s.path.startswith('src/kernels/'):
            self.fail('intrinsics', s.path, line, 'only kernels see intrinsics')
        elif s.path.endswith('.c') and not LEVEL_SUFFIX.search(s.path):
            self.fail('intrinsics', s.path, line, 'the file name must end in its CPU level')

    def include_order(self, s):
        """A file's own header first (so that it proves complete), then <system>, then "project"."""
        own = re.sub(r'^src/', '', s.path)[:-2] + '.h'
        seen_project = False
        for index, (line, name, is_system) in enumerate(s.includes()):
            if name == own and not is_system:
                if index:
                    self.fail('include-order', s.path, line, 'the own header comes first')
            elif is_system and seen_project and name != 'cmocka.h':
                self.fail('include-order', s.path, line, f'<{name}> after a project header')
            elif not is_system:
                seen_project = True

    def leftover_code(self, s):
        for m in re.finditer(r'^\s*#\s*if\s+0\b|\balloca\s*\(', s.with_directives, re.M):
            line = s.with_directives.count('\n', 0, m.start()) + 1
            self.fail('leftover', s.path, line, f'"{m.group().strip()}"')
        statement = re.compile(
            r'(?:(?:if|for|while|switch)\s*\(.*[;{]'
            r'|(?:return|goto|break|continue)\b[^.,]*;'
            r'|[\w.\->\[\]*]+(?:\s+[\w*]+)?\s*[-+*/|&^]?=[^=].*;'
            r'|[A-Za-z_]\w*\([^.]*\);|[{}])$')
        for first, text in s.comments:
            for offset, line in enumerate(text.split('\n')):
                words = re.sub(r'^\s*(/\*+|\*+(?!/)|//)?\s*|\s*\*/\s*$', '', line)
                if statement.match(words):
                    self.fail('leftover', s.path, first + offset, f'commented-out code: {words}')

    def src_functions(self):
        return [f for s in self.sources.values() if s.path.startswith('src/') for f in s.functions]

    def function_p90(self):
        lengths = [f.length for f in self.src_functions()]
        p90 = quantile(lengths, 0.9)
        if p90 > MAX_FUNCTION_P90:
            self.fail('function-length', 'src', 0, f'p90 is {p90:.0f} lines, at most 50')

    def public_header(self):
        s = self.sources.get('include/quern.h')
        if not s:
            return
        public = 0
        for m in re.finditer(r'^(?:QN_API[^;{]*|[A-Za-z_][\w \t*]*\bqn_\w+\([^;{]*)\)[^;{]*;', s.code,
                             re.M):
            public += 1
            line = s.code.count('\n', 0, m.start()) + 1
            last = s.code.count('\n', 0, m.end()) + 1
            if not self.documented(s, line, last):
                name = re.search(r'(qn_\w+)\s*\(', m.group())
                self.fail('undocumented', s.path, line, name.group(1) if name else m.group())
        if public > MAX_PUBLIC:
            self.fail('public-header', s.path, 1, f'{public} functions, at most {MAX_PUBLIC}')

    @staticmethod
    def documented(s, first, last):
        """A comment beside the declaration, or above it or its unbroken group of declarations."""
        commented = set()
        for line, text in s.comments:
            commented.update(range(line, line + text.count('\n') + 1))
        if commented & set(range(first, last + 1)):
            return True
        line = first - 1
        while line > 0 and s.lines[line - 1].strip():
            if line in commented:
                return s.lines[line - 1].lstrip().startswith(('/*', '*', '//'))
            line -= 1
        return False

    def family_names(self):
        names = set()
        for path in self.files:
            m = re.match(r'src/families/(\w+)\.c$', path)
            if m and m.group(1) not in ('family', 'families', 'registry', 'common', 'list'):
                names.add(m.group(1))
        if 'src/families/families.def' in self.files:
            names |= set(re.findall(r'^\s*\w+\(\s*"?(\w+)', self._read('src/families/families.def'),
                                    re.M))
        if not names:
            return
        word = re.compile(r'(?<![a-z0-9])(?:' + '|'.join(sorted(names)) + r')(?![a-z0-9])', re.I)
        for s in self.sources.values():
            if not s.path.startswith(('src/', 'include/')) or s.path.startswith('src/families/'):
                continue
            places = [(s.code.count('\n', 0, m.start()) + 1, m.group())
                      for m in word.finditer(s.code)]
            places += [(line, m.group()) for line, text in s.strings for m in word.finditer(text)]
            for line, name in places:
                self.fail('family-name', s.path, line, f'"{name}" belongs into src/families')

    def leftover_text(self):
        marks = re.compile(r'\b(TODO|FIXME|XXX|HACK)\b|(?<![\w.])(/work/|/home/[a-z]|/root/|/Users/)'
                           r'|^(<<<<<<<|>>>>>>>) ')
        suffixes = ('.c', '.h', '.cu', '.py', '.sh', '.cmake', '.txt', '.md', '.json', '.in', '.def')
        for path in self.files:
            bare = '.' not in os.path.basename(path) or path.startswith('.ci/')
            if not (path.endswith(suffixes) or bare) or path.startswith(('tests/golden/', 'fuzz/seeds/')):
                continue
            if path.startswith('tests/style/') and path.endswith('.py'):
                continue  # the rules themselves and their samples
            for number, line in enumerate(self._read(path).split('\n'), 1):
                m = marks.search(line)
                if m:
                    self.fail('leftover', path, number, f'"{m.group().strip()}"')

    def report(self):
        """The bars, those that only inform too: (what, value, bar)."""
        src = [s for s in self.sources.values() if s.path.startswith(('src/', 'include/'))]
        tests = [s for s in self.sources.values() if s.path.startswith(('tests/', 'fuzz/'))]
        functions = self.src_functions()
        lengths = [f.length for f in functions] or [0]
        files = [len(s.lines) for s in src] or [0]
        families = [len(s.lines) for s in src
                    if s.path.startswith('src/families/') and s.path.endswith('.c')]
        n_src = sum(files)
        long_share = sum(n for n in lengths if n > 100) / max(1, sum(lengths))
        rows = [
            ('function lines, median', f'{statistics.median(lengths):.0f}', '<= 15'),
            ('function lines, p90', f'{quantile(lengths, 0.9):.0f}', '<= 50'),
            ('function lines, max', f'{max(lengths)}', '<= 120'),
            ('lines in functions over 100', f'{long_share:.0%}', '<= 10%'),
            ('file lines, median', f'{statistics.median(files):.0f}', '<= 250'),
            ('file lines, p90', f'{quantile(files, 0.9):.0f}', '<= 700'),
            ('file lines, max', f'{max(files)}', '<= 1200'),
            ('comment lines', f'{sum(s.comment_lines() for s in src) / max(1, n_src):.0%}', '20-35%'),
            ('static functions',
             f'{sum(f.is_static for f in functions) / max(1, len(functions)):.0%}', '>= 60%'),
            ('test lines per source line',
             f'{sum(len(s.lines) for s in tests) / max(1, n_src):.2f}', '>= 0.7'),
        ]
        if families:
            rows.append(('family file lines, median', f'{statistics.median(families):.0f}', '<= 150'))
        rows.append(('source lines, files, functions', f'{n_src}, {len(src)}, {len(functions)}', ''))
        return rows


def quantile(values, q):
    """The smallest value that at least this share of all do not exceed."""
    ordered = sorted(values) or [0]
    return ordered[max(0, -int(-q * len(ordered) // 1) - 1)]


def main(arguments):
    roots = [a for a in arguments if not a.startswith('--')]
    here = os.path.dirname(os.path.abspath(__file__))
    check = Check(roots[0] if roots else os.path.dirname(os.path.dirname(here)))
    found = check.run()
    if '--quiet' not in arguments:
        for what, value, bar in check.report():
            print(f'{what:32} {value:>16}   {bar}')
    for line in found:
        print(line)
    print(f'style: {len(found)} found' if found else 'style: clean')
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
