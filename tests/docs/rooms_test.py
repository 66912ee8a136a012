#!/usr/bin/env python3
"""Rooms and arrows: rooms.py on small trees, then on this one."""

import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import rooms  # noqa: E402

_PAGE = '''# Architecture
## Rooms
### `house/`

| room | holds | uses |
|---|---|---|
| `.` | the door | `hall` |
| `hall` | coats | `cellar` |
| `cellar` | wine | — |

```mermaid
flowchart TD
  house --> hall
  hall --> cellar
```

## Rules
| `attic` | is no room | `hall` |
'''

_TREE = {
    'docs/architecture.md': _PAGE,
    'house/door.cc': '#include "house/hall/coat.h"\n#include <vector>\n',
    'house/hall/coat.h': '#include "house/cellar/wine.pb.h"\n',
    'house/cellar/wine.proto': 'import "google/protobuf/any.proto";\n',
}


class RoomsTest(unittest.TestCase):

    def differences(self, **changes):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for path, text in {**_TREE, **changes}.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text, encoding='utf-8')
            return '\n'.join(rooms.differences(root))

    def test_a_page_that_agrees(self):
        self.assertEqual(self.differences(), '')

    def test_an_arrow_that_the_page_does_not_have(self):
        found = self.differences(
            **{'house/door.cc': '#include "house/cellar/wine.pb.h"\n'
                                '#include "house/hall/coat.h"\n'})
        self.assertIn('`.` uses `cellar`, which the table does not allow: '
                      'house/door.cc includes house/cellar/wine.pb.h', found)

    def test_an_arrow_that_no_include_makes(self):
        found = self.differences(**{'house/hall/coat.h': ''})
        self.assertIn('`hall` does not use `cellar`', found)
        self.assertIn('the drawing has hall --> cellar too much', found)

    def test_a_cycle(self):
        found = self.differences(
            **{'house/cellar/wine.h': '#include "house/hall/coat.h"\n'})
        self.assertIn('a cycle runs through cellar, hall', found)

    def test_a_new_room_needs_a_row(self):
        found = self.differences(**{'house/attic/box.h': ''})
        self.assertIn('the table has no row for `attic`', found)

    def test_a_drawing_that_lacks_an_arrow(self):
        found = self.differences(**{
            'docs/architecture.md': _PAGE.replace('  hall --> cellar\n', '')})
        self.assertEqual(found, 'house: the drawing lacks hall --> cellar')

    def test_a_page_without_rooms(self):
        self.assertIn('no section',
                      self.differences(**{'docs/architecture.md': '# None\n'}))

    def test_this_tree(self):
        root = pathlib.Path(os.path.realpath(rooms.__file__)).parent.parent.parent
        self.assertEqual('\n'.join(rooms.differences(root)), '')


if __name__ == '__main__':
    unittest.main(verbosity=2)
