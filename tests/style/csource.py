"""csource.py - just enough of C's grammar for the style checks: comments apart from code, function
definitions, parameters, nesting. It relies on clang-format's layout (a function's closing brace is the
only brace in column 0) and does not expand macros."""
import re

_PIECE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
_DIRECTIVE = re.compile(r'^[ \t]*#(?:[^\n]*\\\n)*[^\n]*', re.M)
_ATTRIBUTE = re.compile(r'__attribute__\s*\(\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)\)')
_TOKEN = re.compile(r'[A-Za-z_]\w*|""|\'\'|\d[\w.]*|\S')


def _blank(text):
    """Same line count, nothing else."""
    return '\n' * text.count('\n')


class Function:
    def __init__(self, name, first, last, n_params, is_static, depth):
        self.name, self.first, self.last = name, first, last
        self.n_params, self.is_static, self.depth = n_params, is_static, depth

    @property
    def length(self):
        return self.last - self.first + 1


class Source:
    """One file: raw text, `code` without comments (strings emptied), comments as (line, text)."""

    def __init__(self, path, text):
        self.path, self.text = path, text
        self.lines = text.split('\n')
        if self.lines and self.lines[-1] == '':
            self.lines.pop()
        self.comments, self.strings = [], []
        self.with_directives = _PIECE.sub(self._piece, text)
        self.code = _DIRECTIVE.sub(lambda m: _blank(m.group()), self.with_directives)
        self.functions = list(self._functions())

    def _piece(self, match):
        piece = match.group()
        line = self.text.count('\n', 0, match.start()) + 1
        if piece[0] == '/':
            self.comments.append((line, piece))
            return ' ' + _blank(piece)
        self.strings.append((line, piece))
        return piece[0] * 2

    def comment_lines(self):
        covered = set()
        for line, text in self.comments:
            covered.update(range(line, line + text.count('\n') + 1))
        return len(covered)

    def includes(self):
        """(line, name, is_system) in order."""
        for number, line in enumerate(self.lines, 1):
            m = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
            if m:
                yield number, m.group(2), m.group(1) == '<'

    def _functions(self):
        depth, start, head = 0, 0, None
        for m in re.finditer(r'[{};]', self.code):
            at, char = m.start(), m.group()
            if char == '{':
                if depth == 0:
                    head = self._head(start, at)
                    body = at
                depth += 1
            elif char == '}':
                column0 = at == 0 or self.code[at - 1] == '\n'
                depth = 0 if column0 else max(0, depth - 1)
                if depth == 0:
                    if head:
                        yield self._function(head, body, at)
                    start, head = at + 1, None
            elif depth == 0:
                start = at + 1

    def _head(self, start, end):
        """The signature that ends right before a top-level brace, or None when that is no function."""
        text = _ATTRIBUTE.sub(lambda m: ' ' * len(m.group()), self.code[start:end])
        if not text.rstrip().endswith(')') or '=' in text:
            return None
        # A macro used as a line of its own may stand before the function, set off by an empty line.
        cut = 0
        for gap in re.finditer(r'\n[ \t]*\n', text.rstrip()):
            cut = gap.end()
        while cut < len(text) and text[cut].isspace():
            cut += 1
        return start + cut, text[cut:]

    def _function(self, head, body, end):
        at, signature = head
        opening = _last_group(signature)
        name = re.findall(r'[A-Za-z_]\w*', signature[:opening])
        params = signature[opening + 1:signature.rstrip().rfind(')')]
        first = self.code.count('\n', 0, at) + 1
        last = self.code.count('\n', 0, end) + 1
        tokens = _TOKEN.findall(self.code[body:end + 1])
        return Function(name[-1] if name else '?', first, last, _count_params(params),
                        'static' in name, _Nesting(tokens).deepest)


def _last_group(signature):
    """Where the parameter list's '(' is: the partner of the last ')'."""
    depth = 0
    for i in range(len(signature) - 1, -1, -1):
        depth += (signature[i] == ')') - (signature[i] == '(')
        if signature[i] == '(' and depth == 0:
            return i
    return 0


def _count_params(text):
    if text.strip() in ('', 'void'):
        return 0
    depth, n = 0, 1
    for c in text:
        depth += (c in '([{') - (c in ')]}')
        n += c == ',' and depth == 0
    return n


class _Nesting:
    """How many control statements enclose the innermost one; `else if` is one level with its `if`."""

    def __init__(self, tokens):
        self.t, self.deepest = tokens, 0
        try:
            self._statement(0, 0)
        except IndexError:
            pass  # unbalanced through macros or #if branches: what was seen counts

    def _skip_group(self, i):
        depth = 0
        while True:
            depth += (self.t[i] in '([{') - (self.t[i] in ')]}')
            i += 1
            if depth == 0:
                return i

    def _body(self, i, depth):
        self.deepest = max(self.deepest, depth)
        return self._statement(i, depth)

    def _statement(self, i, depth):
        t = self.t[i]
        if t == '{':
            i += 1
            while self.t[i] != '}':
                i = self._statement(i, depth)
            return i + 1
        if t == 'if':
            i = self._body(self._skip_group(i + 1), depth + 1)
            if i < len(self.t) and self.t[i] == 'else':
                chain = self.t[i + 1] == 'if'
                i = self._statement(i + 1, depth) if chain else self._body(i + 1, depth + 1)
            return i
        if t in ('for', 'while', 'switch'):
            return self._body(self._skip_group(i + 1), depth + 1)
        if t == 'do':
            i = self._body(i + 1, depth + 1)
            return self._skip_group(i + 1) + 1
        if t in ('case', 'default'):
            while self.t[i] != ':':
                i += 1
            return i + 1
        if self.t[i + 1] == ':' and re.match(r'[A-Za-z_]', t):
            return i + 2
        if t != 'return' and self.t[i + 1] == '(' and re.match(r'[A-Za-z_]', t):
            after = self._skip_group(i + 1)
            if self.t[after] == '{':  # a macro that hides a loop
                return self._body(after, depth + 1)
        while self.t[i] != ';':
            i = self._skip_group(i) if self.t[i] in '([{' else i + 1
        return i + 1
