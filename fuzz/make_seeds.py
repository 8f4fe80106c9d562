#!/usr/bin/env python3
"""make_seeds.py - writes the binary and the larger seeds of fuzz/seeds. They are small, valid, and touch each
part of their format once, so that the fuzzers start behind the first checks."""
import json
import os
import struct

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'seeds')


def write(path, data):
    full = os.path.join(HERE, path)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    with open(full, 'wb') as f:
        f.write(data if isinstance(data, bytes) else data.encode())


# ---- GGUF ----
SCALARS = {'u8': (0, '<B'), 'i8': (1, '<b'), 'u16': (2, '<H'), 'i16': (3, '<h'), 'u32': (4, '<I'), 'i32': (5, '<i'),
           'f32': (6, '<f'), 'bool': (7, '<?'), 'u64': (10, '<Q'), 'i64': (11, '<q'), 'f64': (12, '<d')}


def gguf_string(s):
    raw = s.encode()
    return struct.pack('<Q', len(raw)) + raw


def gguf_value(kind, value):
    """(type id, bytes); kind is a scalar, 'str', or a list of one kind."""
    if kind == 'str':
        return 8, gguf_string(value)
    if isinstance(kind, list):
        items = [gguf_value(kind[0], v) for v in value]
        inner = items[0][0] if items else 4
        return 9, struct.pack('<IQ', inner, len(items)) + b''.join(raw for _, raw in items)
    type_id, form = SCALARS[kind]
    return type_id, struct.pack(form, value)


def gguf(metadata, tensors, version=3, alignment=32):
    out = b'GGUF' + struct.pack('<IQQ', version, len(tensors), len(metadata))
    for key, (kind, value) in metadata.items():
        type_id, raw = gguf_value(kind, value)
        out += gguf_string(key) + struct.pack('<I', type_id) + raw
    data = b''
    for name, (dims, ggml_type, raw) in tensors.items():
        out += gguf_string(name) + struct.pack('<I', len(dims)) + struct.pack(f'<{len(dims)}Q', *dims)
        out += struct.pack('<IQ', ggml_type, len(data))
        data += raw + b'\0' * (-len(raw) % alignment)
    return out + b'\0' * (-len(out) % alignment) + data


def gguf_seeds():
    every = {f'x.{kind}': (kind, 1) for kind in SCALARS}
    every.update({'general.alignment': ('u32', 32), 'general.name': ('str', 'seed'), 'x.array': (['i32'], [1, -2, 3]),
                  'x.strings': (['str'], ['a', '', 'é']), 'x.nested': ([['u8']], [[1], [2, 3]]), 'x.empty': (['f32'], [])})
    write('gguf/metadata.gguf', gguf(every, {}))
    f32 = struct.pack('<8f', *range(8))
    tensors = {'a.weight': ([4, 2], 0, f32), 'b.weight': ([8], 1, f32[:16]), 'q4_0': ([32], 2, bytes(18)),
               'q8_0': ([32, 1], 8, bytes(34)), 'q6_k': ([256], 14, bytes(210)), 'bf16': ([2, 2, 2], 30, f32[:16])}
    write('gguf/tensors.gguf', gguf({'general.architecture': ('str', 'llama')}, tensors))
    write('gguf/version2.gguf', gguf({'general.alignment': ('u32', 64)}, {'a': ([8], 0, f32)}, 2, 64))
    d, ff = 8, 16
    config = {'general.architecture': ('str', 'llama'), 'llama.block_count': ('u32', 1), 'llama.context_length': ('u32', 32),
              'llama.embedding_length': ('u32', d), 'llama.feed_forward_length': ('u32', ff),
              'llama.attention.head_count': ('u32', 2), 'llama.attention.head_count_kv': ('u32', 1),
              'llama.attention.layer_norm_rms_epsilon': ('f32', 1e-5), 'llama.rope.freq_base': ('f32', 1e4),
              'tokenizer.ggml.model': ('str', 'gpt2'), 'tokenizer.ggml.pre': ('str', 'default'),
              'tokenizer.ggml.tokens': (['str'], ['a', 'b', 'ab', 'Ġ', '<s>']),
              'tokenizer.ggml.token_type': (['i32'], [1, 1, 1, 1, 3]), 'tokenizer.ggml.merges': (['str'], ['a b']),
              'tokenizer.ggml.bos_token_id': ('u32', 4), 'tokenizer.ggml.add_bos_token': ('bool', True),
              'tokenizer.chat_template': ('str', '{% for m in messages %}{{ m.content }}{% endfor %}')}

    def weight(*dims):
        n = 1
        for size in dims:
            n *= size
        return list(dims), 0, bytes(4 * n)
    model = {'token_embd.weight': weight(d, 5), 'output_norm.weight': weight(d), 'blk.0.attn_norm.weight': weight(d),
             'blk.0.attn_q.weight': weight(d, d), 'blk.0.attn_k.weight': weight(d, d // 2),
             'blk.0.attn_v.weight': weight(d, d // 2), 'blk.0.attn_output.weight': weight(d, d),
             'blk.0.ffn_norm.weight': weight(d), 'blk.0.ffn_gate.weight': weight(d, ff),
             'blk.0.ffn_up.weight': weight(d, ff), 'blk.0.ffn_down.weight': weight(ff, d)}
    write('gguf/model.gguf', gguf(config, model))


# ---- safetensors ----
def safetensors(header, data):
    text = json.dumps(header, separators=(',', ':')).encode()
    text += b' ' * (-len(text) % 8)
    return struct.pack('<Q', len(text)) + text + data


def safetensors_seeds():
    write('safetensors/empty.safetensors', safetensors({}, b''))
    write('safetensors/types.safetensors', safetensors(
        {'__metadata__': {'format': 'pt'},
         'a': {'dtype': 'F32', 'shape': [2, 2], 'data_offsets': [0, 16]},
         'b': {'dtype': 'BF16', 'shape': [3], 'data_offsets': [16, 22]},
         'c': {'dtype': 'I64', 'shape': [], 'data_offsets': [22, 30]},
         'd': {'dtype': 'F8_E4M3', 'shape': [2, 0], 'data_offsets': [30, 30]},
         'e': {'dtype': 'BOOL', 'shape': [1, 1, 2], 'data_offsets': [30, 32]}}, bytes(32)))
    write('safetensors/affine.safetensors', safetensors(
        {'w.weight': {'dtype': 'U32', 'shape': [2, 4], 'data_offsets': [0, 32]},
         'w.scales': {'dtype': 'F16', 'shape': [2, 1], 'data_offsets': [32, 36]},
         'w.biases': {'dtype': 'F16', 'shape': [2, 1], 'data_offsets': [36, 40]}}, bytes(40)))


# ---- tokenizer.json ----
def tokenizer_seeds():
    added = [{'id': 5, 'content': '<s>', 'single_word': False, 'lstrip': False, 'rstrip': True, 'normalized': False,
              'special': True}]
    split = {'type': 'Split', 'pattern': {'Regex': r'\p{L}+|\p{N}{1,3}|\s+(?!\S)|\s+'}, 'behavior': 'Isolated',
             'invert': False}
    byte_level = {'type': 'ByteLevel', 'add_prefix_space': False, 'trim_offsets': True, 'use_regex': False}
    template = {'type': 'TemplateProcessing',
                'single': [{'SpecialToken': {'id': '<s>', 'type_id': 0}}, {'Sequence': {'id': 'A', 'type_id': 0}}],
                'pair': [{'Sequence': {'id': 'A', 'type_id': 0}}, {'Sequence': {'id': 'B', 'type_id': 1}}],
                'special_tokens': {'<s>': {'id': '<s>', 'ids': [5], 'tokens': ['<s>']}}}
    kinds = {
        'bpe': {'normalizer': {'type': 'NFC'}, 'pre_tokenizer': {'type': 'Sequence', 'pretokenizers': [split, byte_level]},
                'post_processor': template, 'decoder': byte_level,
                'model': {'type': 'BPE', 'vocab': {'a': 0, 'b': 1, 'ab': 2, 'Ġ': 3, 'Ġab': 4},
                          'merges': ['a b', 'Ġ ab'], 'ignore_merges': False, 'byte_fallback': False}},
        'sentencepiece': {
            'normalizer': {'type': 'Sequence', 'normalizers': [
                {'type': 'Prepend', 'prepend': '▁'}, {'type': 'Replace', 'pattern': {'String': ' '}, 'content': '▁'}]},
            'decoder': {'type': 'Sequence', 'decoders': [
                {'type': 'Replace', 'pattern': {'String': '▁'}, 'content': ' '}, {'type': 'ByteFallback'},
                {'type': 'Fuse'}, {'type': 'Strip', 'content': ' ', 'start': 1, 'stop': 0}]},
            'model': {'type': 'BPE', 'unk_token': '<s>', 'fuse_unk': True, 'byte_fallback': True,
                      'vocab': {'<0x0A>': 0, '▁': 1, 'a': 2, '▁a': 3, '<s>': 4}, 'merges': [['▁', 'a']]}},
        'unigram': {'pre_tokenizer': {'type': 'Metaspace', 'replacement': '▁', 'prepend_scheme': 'always', 'split': True},
                    'model': {'type': 'Unigram', 'unk_id': 0, 'byte_fallback': False,
                              'vocab': [['<unk>', 0.0], ['▁', -1.5], ['a', -2], ['▁ab', -3.25]]}},
        'wordpiece': {'normalizer': {'type': 'BertNormalizer', 'clean_text': True, 'handle_chinese_chars': True,
                                     'strip_accents': None, 'lowercase': True},
                      'pre_tokenizer': {'type': 'BertPreTokenizer'},
                      'decoder': {'type': 'WordPiece', 'prefix': '##', 'cleanup': True},
                      'model': {'type': 'WordPiece', 'unk_token': '[UNK]', 'continuing_subword_prefix': '##',
                                'max_input_chars_per_word': 100, 'vocab': {'[UNK]': 0, 'a': 1, '##b': 2}}},
    }
    for name, parts in kinds.items():
        whole = {'version': '1.0', 'added_tokens': added, **parts}
        write(f'tokenizer/{name}.json', json.dumps(whole, ensure_ascii=False, separators=(',', ':')))


# ---- chat templates ----
TEMPLATES = {
    'turns': "{{ bos_token }}{% for m in messages %}<|{{ m['role'] }}|>\n{{ m.content | trim }}{{ '\\n' if not loop.last }}"
             "{%- endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}",
    'state': "{%- set ns = namespace(n=0) -%}{%- macro put(x, y='-') -%}{{ x ~ y }}{%- endmacro -%}{% for m in messages[::-1] "
             "if m.role in ['user'] %}{% set ns.n = ns.n + loop.index0 %}{{ put(m.content[1:-1]) }}{% continue %}{% else %}"
             "none{% endfor %}{{ ns.n }}",
    'tools': "{% if tools is defined and tools %}{{ tools | tojson(indent=2) }}{% endif %}{% for k, v in messages[0].items() %}"
             "{{ k | upper }}: {{ v | string | length }}{% endfor %}{{ raise_exception('no') if messages | length > 9 }}",
    'words': "{% filter lower %}{{ 'A' * 3 }}{% endfilter %}{% raw %}{{ x }}{% endraw %}{# note #}{{ [1, 2.5, none, true] | "
             "join(', ') }}{{ messages | map(attribute='role') | list | unique | first }}{{ 7 // 2 ** 2 % 3 }}"
             "{{ 'x' if 1 < 2 and not 3 == 4 else {'a': (1,)} }}{{ '%s-%d' | format('a', 3) }}{{ strftime_now('%Y') }}",
}


if __name__ == '__main__':
    gguf_seeds()
    safetensors_seeds()
    tokenizer_seeds()
    for template_name, source in TEMPLATES.items():
        write(f'template/{template_name}.jinja', source)
