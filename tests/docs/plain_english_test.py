#!/usr/bin/env python3
"""plain_english.py on small strings, then on this tree."""

import os
import pathlib
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import plain_english  # noqa: E402

_OPENING = '// Does one thing.\n'


class PlainEnglishTest(unittest.TestCase):

    def found(self, path, text):
        return [(line, what.split(';')[0])
                for line, what in plain_english.problems(path, text)]

    def assert_fragment(self, path, text, word, line=1):
        self.assertEqual(self.found(path, text),
                         [(line, f'a comment begins with "{word}"')])

    def assert_right(self, path, text):
        self.assertEqual(self.found(path, text), [])

    def test_fragments(self):
        for word in ('Of', 'That', 'Those', 'Which', 'Who', 'Whom', 'Whose'):
            self.assert_fragment('a.h', f'int b;\n  // {word} the cores.\nint c;',
                                 word, line=2)
        self.assert_fragment('a.ts', '/** Of the job. */', 'Of')
        self.assert_fragment('a.proto', '// Which it has.', 'Which')
        for path in ('a.py', 'a.sh', 'a.bzl', 'b/BUILD'):
            self.assert_fragment(path, '# Of the cores.', 'Of')

    def test_sentences(self):
        for text in ('Rows of W that this core multiplies.', 'Offered slots.',
                     'Whoever asks first gets it.', 'Thatched roofs.'):
            self.assert_right('a.h', f'// {text}\n')

    def test_only_the_beginning_of_a_block_counts(self):
        self.assert_right('a.h', '// Rows\n// of W.\n//\n// Of these few.\n')
        self.assert_right('a.py', 'x = 1\n# Slots\n# Of which none is free.\n')

    def test_prepositions_need_a_main_clause(self):
        self.assert_fragment('a.h', '// As stored.', 'As')
        self.assert_fragment('a.h', '// For tests: a clock, and a store.', 'For')
        self.assert_fragment('a.h', '// As many as\n// there are.', 'As')
        self.assert_right('a.h', '// As in CUDA, entries behind it are none.')
        self.assert_right('a.h', '// For a DLRM whose tables\n// are large, rows.')

    def test_trailing_comments(self):
        wrong = [(1, 'a trailing comment begins with "of"')]
        self.assertEqual(self.found('a.h', 'int a;  // of member 0'), wrong)
        self.assertEqual(self.found('a.py', 'a = 1  # of member 0'), wrong)
        self.assert_right('a.h', 'int a;  // offset of member 0')
        self.assert_right('a.h', 'const char* a = "x // of";')

    def test_opening_lines(self):
        self.assert_right('a/slot_pool.cc', '// Hands out slots.\n#include <a>')
        self.assertEqual(self.found('a.cc', '#include <a>\n'),
                         [(1, 'no opening line')])
        self.assertEqual(self.found('a.cc', ''), [(1, 'no opening line')])
        self.assert_right('a.h', '#ifndef A_\n')

    def test_opening_lines_that_repeat_the_name(self):
        for path, text in (('a/slot_pool.cc', '// The slot pool.\n'),
                           ('slot_pool_test.cc', '// Test of slot_pool.cc.\n')):
            self.assertEqual(self.found(path, text),
                             [(1, 'the opening line repeats the name')])

    def test_dialect(self):
        for name in ('TakeStep', 'TellReasons', 'Tell(', 'Foresee', 'LookAtAll',
                     'LookForEnd', 'Look(', 'Gone', 'GoneLinear', 'Durable(',
                     'RoomFor'):
            found = self.found('a.cc', f'{_OPENING}\n{name}();\n')
            self.assertEqual(len(found), 1, name)
            self.assertEqual(found[0][0], 3)
            self.assertIn(name.strip('('), found[0][1])

    def test_names_that_are_right(self):
        for name in ('TakesValue', 'Teller', 'Lookup', 'Undergone', 'Durable',
                     'taken', 'TestTakeStep', 'TakeAll'):
            self.assert_right('a.h', f'int {name};\n')

    def test_dialect_counts_in_code_only(self):
        self.assert_right('a.h', '// TakeStep was renamed.\n/* TakeStep */\n'
                          'const char a[] = "TakeStep";\n'
                          'const char b[] = R"(\nTakeStep)";\n')
        self.assert_right('a.py', 'TakeStep = 1\n')
        found = self.found('a.h', 'auto a = R"(\n\n)";\nTakeStep();\n')
        self.assertEqual(found[0][0], 4)

    def test_exceptions_have_reasons(self):
        self.assertLessEqual(len(plain_english.EXCEPTIONS), 10)
        for name, reason in plain_english.EXCEPTIONS.items():
            self.assertGreater(len(reason), 10, name)

    def test_processes_are_members(self):
        for text in ('Starts rank processes.', 'Notes when ranks die.',
                     "The rank's process ends.", 'Nothing if the rank hangs.'):
            self.assertEqual(len(self.found('a.h', f'// {text}\n')), 1, text)
        self.assert_right('a.h', '// The rank of the bond between two cores.\n')
        self.assert_right('worker/collective/a.h', '// Nothing when ranks die.')

    def test_this_tree(self):
        root = pathlib.Path(os.path.realpath(plain_english.__file__)).parents[2]
        found = list(plain_english.tree_problems(root))
        self.assertEqual(len(found), 0, '\n' + '\n'.join(found))

    def test_the_tree_is_there(self):
        root = pathlib.Path(os.path.realpath(plain_english.__file__)).parents[2]
        paths = set(plain_english.sources(root))
        for path in ('common/BUILD', 'proto/comera/v1/job.proto',
                     'tests/docs/plain_english.py', 'worker/gang/gang.h'):
            self.assertIn(path, paths)


if __name__ == '__main__':
    unittest.main(verbosity=2)
