#!/usr/bin/env python3
"""selftest.py - the style rules fed with samples: each bad one must be found, its good twin must not."""
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from check import Check, quantile
from csource import Source

BODY = 'static void f(void)\n{\n%s}\n'


def found(files):
    """Rules that fail on a tree of {path: text}; a C file's head comment is added."""
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            if path.endswith(('.c', '.h')) and not text.startswith('/*!'):
                text = f'/* {os.path.basename(path)} - a sample. */\n{text}'
            if path.endswith('.h'):
                text = text.replace('. */\n', '. */\n#ifndef G\n#define G\n', 1) + '#endif\n'
            full = os.path.join(root, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, 'w', encoding='utf-8') as f:
                f.write(text.replace('/*! */\n', ''))
        return [line.split(': ')[1] for line in Check(root).run()]


class Functions(unittest.TestCase):
    def one(self, text):
        functions = Source('x.c', text).functions
        self.assertEqual(len(functions), 1)
        return functions[0]

    def test_signature(self):
        f = self.one('#define X(a) \\\n  { a }\nX(one)\n\nQN_API int *name(const char *a, int (*b)(int, int),\n'
                     '   struct s c)\n{\n    return (struct s){ 1, 2 };\n}\n')
        self.assertEqual((f.name, f.n_params, f.is_static, f.first, f.last), ('name', 3, False, 5, 9))

    def test_attribute_and_void(self):
        f = self.one('static __attribute__((format(printf, 1, 2))) void f(void)\n{\n}\n')
        self.assertEqual((f.name, f.n_params, f.is_static, f.length), ('f', 0, True, 3))

    def test_not_functions(self):
        text = 'struct s {\n    int a;\n};\nstatic const int v[] = { 1, (2) };\nenum { A, B };\nint g(void);\n'
        self.assertEqual(Source('x.c', text).functions, [])

    def test_braces_in_text(self):
        f = self.one("static void f(void)\n{\n    /* } */\n    g(\"}\\\"{\", '}', '\\'');\n}\n")
        self.assertEqual(f.length, 5)

    def depth(self, body):
        return self.one(BODY % body).depth

    def test_nesting(self):
        self.assertEqual(self.depth('x = 1;\n'), 0)
        self.assertEqual(self.depth('{ { g(); } }\n'), 0)
        self.assertEqual(self.depth('if (a) b(); else if (c) d(); else if (e) f(); else g();\n'), 1)
        self.assertEqual(self.depth('for (;;) while (a) do { if (b) { c(); } } while (d);\n'), 4)
        self.assertEqual(self.depth('switch (a) { case 1: if (b) c(); break; default: d(); }\n'), 2)
        self.assertEqual(self.depth('fail: if (a) b = (t){ .x = { 1 } }; return;\n'), 1)
        self.assertEqual(self.depth('FOR_EACH(i, n) { if (i) g(); }\n'), 2)
        self.assertEqual(self.depth('int v[] = { 1, 2 }; if (v[0]) { return; }\n'), 1)

    def test_quantile(self):
        self.assertEqual(quantile(range(1, 11), 0.9), 9)
        self.assertEqual(quantile([], 0.9), 0)


class Rules(unittest.TestCase):
    def test_function_length(self):
        self.assertEqual(found({'src/base/a.c': BODY % ('    g();\n' * 117)}), ['function-length'])
        many = ''.join(f'static void f{i}(void)\n{{\n}}\n' for i in range(20))
        self.assertEqual(found({'src/base/a.c': BODY % ('    g();\n' * 117) + many}), [])
        self.assertEqual(found({'src/base/a.c': BODY % ('    g();\n' * 118) + many}), ['function-length'])

    def test_file_length(self):
        self.assertEqual(found({'src/base/a.c': 'int a;\n' * 1200}), ['file-length'])
        self.assertEqual(found({'src/base/a.c': 'int a;\n' * 1199}), [])

    def test_parameters(self):
        self.assertEqual(found({'src/base/a.c': 'void f(int a, int b, int c, int d, int e, int f)\n{\n}\n'}), [])
        self.assertEqual(found({'src/base/a.c': 'void f(int a, int b, int c, int d, int e, int f, int g)\n{\n}\n'}),
                         ['parameters'])

    def test_nesting(self):
        loops = 'for (;;) ' * 4
        self.assertEqual(found({'src/base/a.c': BODY % (loops + 'g();\n')}), [])
        self.assertEqual(found({'src/base/a.c': BODY % (loops + 'if (a) g();\n')}), ['nesting'])

    def test_layers(self):
        def include(path, name):
            files = {f'src/{n}/{n}.h': '' for n in ('base', 'graph', 'ops', 'tensor', 'engine', 'server',
                                                    'blocks', 'formats')}
            return found({**files, path: f'#include "{name}"\n'})
        self.assertEqual(include('src/ops/a.c', 'graph/graph.h'), [])
        self.assertEqual(include('src/graph/a.c', 'ops/ops.h'), ['layer'])
        self.assertEqual(include('src/formats/a.c', 'graph/graph.h'), ['layer'])
        self.assertEqual(include('src/families/a.c', 'blocks/blocks.h'), [])
        self.assertEqual(include('src/families/a.c', 'base/base.h'), ['layer'])
        self.assertEqual(include('src/cli/a.c', 'engine/engine.h'), ['layer'])
        self.assertEqual(include('src/cli/cmd_bench.c', 'engine/engine.h'), [])
        self.assertEqual(include('src/cli/a.c', 'server/server.h'), [])
        self.assertEqual(include('src/server/a.c', 'quern.h'), [])
        self.assertEqual(include('src/base/a.c', 'missing.h'), ['layer'])
        self.assertEqual(include('src/other/a.c', 'base/base.h'), ['layer'])
        self.assertEqual(include('include/quern.h', 'base/base.h'), ['layer'])
        self.assertEqual(include('examples/a.c', 'base/base.h'), ['layer'])
        self.assertEqual(include('tests/unit/test_a.c', 'engine/engine.h'), [])

    def test_include_order(self):
        files = {'src/base/a.h': '', 'src/base/b.h': ''}
        good = '#include "base/a.h"\n\n#include <stdio.h>\n\n#include "base/b.h"\n'
        self.assertEqual(found({**files, 'src/base/a.c': good}), [])
        late = '#include <stdio.h>\n\n#include "base/a.h"\n'
        self.assertEqual(found({**files, 'src/base/a.c': late}), ['include-order'])
        mixed = '#include "base/b.h"\n#include <stdio.h>\n'
        self.assertEqual(found({**files, 'src/base/c.c': mixed}), ['include-order'])

    def test_intrinsics(self):
        include = '#include <immintrin.h>\n'
        self.assertEqual(found({'src/kernels/dot_avx2.c': include}), [])
        self.assertEqual(found({'src/kernels/dot.c': include}), ['intrinsics'])
        self.assertEqual(found({'src/ops/dot.c': include}), ['intrinsics'])

    def test_public_header(self):
        self.assertEqual(found({'include/quern.h': '/* Opens. */\nQN_API int qn_open(int a,\n    int b);\n'}), [])
        self.assertEqual(found({'include/quern.h': 'QN_API int qn_open(int a); /* opens */\n'}), [])
        self.assertEqual(found({'include/quern.h': '/* Both. */\nint qn_a(void);\nint qn_b(void);\n'}), [])
        self.assertEqual(found({'include/quern.h': '/* One. */\nint qn_a(void);\n\nint qn_b(void);\n'}),
                         ['undocumented'])
        many = ''.join(f'QN_API int qn_{i}(void); /* call {i} */\n' for i in range(81))
        self.assertEqual(found({'include/quern.h': many}), ['public-header'])

    def test_family_names(self):
        files = {'src/families/llama.c': '', 'src/families/families.def': 'FAMILY(mixtral)\n'}
        self.assertEqual(found({**files, 'src/engine/a.c': 'const char *s = "llama";\n'}), ['family-name'])
        self.assertEqual(found({**files, 'src/engine/a.c': 'int is_mixtral;\n'}), ['family-name'])
        self.assertEqual(found({**files, 'src/engine/a.c': '/* as Llama has it */\nint smollama2;\n'}), [])
        self.assertEqual(found({**files, 'src/families/b.c': 'const char *s = "llama";\n'}), [])
        self.assertEqual(found({**files, 'tests/unit/test_a.c': 'const char *s = "llama";\n'}), [])

    def test_leftovers(self):
        def comment(text):
            return found({'src/base/a.c': f'/* {text} */\nint a;\n'})
        for bad in ('TO' 'DO: more', 'FIX' 'ME', 'x = y + 1;', 'return x;', 'qn_free(p);', 'if (a) {',
                    'a->b[i] += 2;', '}', 'see /ho' 'me/me/x', 'int n = 3;'):
            self.assertEqual(comment(bad), ['leftover'], bad)
        for good in ('a = b holds here.', 'Use: QN_GROW(v, n, cap).', 'x = y; then z.', 'return early',
                     'for (a) see b', '[n_tok, d]', 'for everything else; see below'):
            self.assertEqual(comment(good), [], good)
        self.assertEqual(found({'src/base/a.c': '#if 0\nint a;\n#endif\n'}), ['leftover'])
        self.assertEqual(found({'docs/a.md': 'X' 'XX\n'}), ['leftover'])

    def test_head(self):
        self.assertEqual(found({'src/base/a.c': '/*! */\nint a;\n'}), ['head'])

    def test_exceptions(self):
        long = BODY % ('    g();\n' * 150) + ''.join(f'static void f{i}(void)\n{{\n}}\n' for i in range(20))
        listing = 'tests/style/exceptions.txt'
        self.assertEqual(found({'src/base/a.c': long, listing: 'function-length src/base/a.c:f a table\n'}), [])
        self.assertEqual(found({'src/base/a.c': long, listing: 'function-length src/base/a.c:f\n'}),
                         ['function-length', 'exception'])
        self.assertEqual(found({listing: 'nesting src/base/*.c none\n'}), ['exception'])


if __name__ == '__main__':
    unittest.main()
