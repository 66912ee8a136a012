"""Texts that tokenizers may disagree about."""

import random
import unicodedata

PLAIN = [
    '', ' ', "It's the dog's, they'll say: we've  been 'round.\n\n  x = 3.14 \t",
    'Crème brûlée — naïve façade; ÀÉÎ İstanbul ΑΣ ﬁ Ⅷ ½ ²',
    '日本語のテキスト、中文字符。한국어 텍스트', 'עברית العربية हिन्दी ภาษาไทย',
    'e\u0301 a\u0300\u0301 \u00a0\u2003\u3000x\u0085y\u200bz\ufeff\ufffd',
    'a\x00b\x01\x1c\x1d\x7fc', 'x' * 150 + ' ' + 'ab' * 40, 'a' * 100,
    '😀👩‍👩‍👧 #hash @at 100% 1,000.5 snake_case camelCase ## ##ing',
]


def old_characters():
    """Characters that every table has: the tokenizers library knows none of
    Unicode's later ones."""
    return [
        c for c in map(chr, range(0x80, 0x2FA1E))
        if unicodedata.ucd_3_2_0.category(c) != 'Cn'
        and unicodedata.ucd_3_2_0.category(c) == unicodedata.category(c)
        and not 0xD800 <= ord(c) <= 0xDFFF
    ]


def texts():
    """The same ones in every run."""
    draw = random.Random(5)
    pool = old_characters()
    result = list(PLAIN)
    for _ in range(200):
        result.append(''.join(draw.choices(pool, k=draw.randrange(1, 60))))
        result.append(''.join(draw.choices(" \t\r\nabcXYZ019'.,-é日 ", k=40)))
    return result
