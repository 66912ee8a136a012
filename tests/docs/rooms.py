#!/usr/bin/env python3
"""Compares the rooms of docs/architecture.md with the includes of the tree.

The page has one section for each place that is divided into rooms:

    ### `server/`

    | room | holds | uses |
    |---|---|---|
    | `daemon` | ... | `api`, `host` |

    ```mermaid
    flowchart TD
      daemon --> api
    ```

A room is a folder of the place; `.` stands for the files of the place itself.
The table names every arrow between rooms of the place. The drawing leaves out
the arrows that follow from others (it is the transitive reduction).

    rooms.py            what differs, one line each; exit status 1 if anything
    rooms.py --print    the arrows that the includes make, as the page has them
"""

import argparse
import os
import pathlib
import re
import sys

PAGE = 'docs/architecture.md'
_INCLUDE = re.compile(r'^\s*(?:#\s*include|import)\s+"([^"]+)"', re.M)
_SOURCES = ('.cc', '.h', '.cuh', '.proto')


def room_of(place, path):
    """The room of `place` that holds `path`; None where it lies elsewhere."""
    if not path.startswith(place + '/'):
        return None
    rest = path[len(place) + 1:]
    return rest.split('/')[0] if '/' in rest else '.'


def sources_of(root, place):
    """Pairs (path, paths it includes) of the sources below `place`."""
    for folder, folders, names in os.walk(root / place):
        folders[:] = [name for name in folders if name != 'node_modules']
        for name in names:
            if name.endswith(_SOURCES):
                file = pathlib.Path(folder, name)
                yield str(file.relative_to(root)), _INCLUDE.findall(
                    file.read_text(encoding='utf-8'))


def arrows(root, place):
    """{room: {room it uses: one include that says so}}, by the includes."""
    found = {}
    for path, included in sources_of(root, place):
        user = room_of(place, path)
        found.setdefault(user, {})
        for each in included:
            used = room_of(place, each)
            if used not in (None, user):
                found[user].setdefault(used, f'{path} includes {each}')
                found.setdefault(used, {})
    return found


def reachable(graph, start):
    seen, todo = set(), [start]
    while todo:
        for each in graph.get(todo.pop(), ()):
            if each not in seen:
                seen.add(each)
                todo.append(each)
    return seen


def reduction(graph):
    """The arrows of an acyclic graph that follow from no others."""
    return {
        (user, used)
        for user in graph for used in graph[user]
        if not any(used in reachable(graph, other)
                   for other in graph[user] if other != used)
    }


def sections(text):
    """{place: ({room: set of rooms it uses}, set of drawn arrows)} of the page."""
    found = {}
    for part in re.split(r'^### ', text, flags=re.M)[1:]:
        title = re.match(r'`([\w/]+)/`', part)
        if title is None:
            continue
        part = re.split(r'^#{1,2} ', part, flags=re.M)[0]
        table = {}
        for row in re.findall(r'^\| `([\w.]+)` \|.*\| ([^|]*) \|$', part, re.M):
            table[row[0]] = set(re.findall(r'`([\w.]+)`', row[1]))
        drawn = set(re.findall(r'^ +([\w.]+) --> ([\w.]+)$', part, re.M))
        found[title.group(1)] = (table, {
            (named(a, title.group(1)), named(b, title.group(1)))
            for a, b in drawn
        })
    return found


def named(node, place):
    """A drawing names the files of the place itself after the place."""
    return '.' if node == place.rsplit('/', maxsplit=1)[-1] else node


def differences(root):
    """Lines that say where the page and the includes differ."""
    page = sections((root / PAGE).read_text(encoding='utf-8'))
    if not page:
        yield f'{PAGE}: has no section of a place with rooms'
    for place, (table, drawn) in page.items():
        graph = arrows(root, place)
        for room in sorted(set(graph) - set(table)):
            yield f'{place}: the table has no row for `{room}`'
        for room in sorted(set(table) - set(graph)):
            # A room without sources in C++ has a row and no arrows.
            if table[room] or not (root / place / room).is_dir():
                yield f'{place}: the table has `{room}`, which is no folder'
        for room in sorted(set(graph) & set(table)):
            for used in sorted(set(graph[room]) - table[room]):
                yield (f'{place}: `{room}` uses `{used}`, which the table does '
                       f'not allow: {graph[room][used]}')
            for used in sorted(table[room] - set(graph[room])):
                yield f'{place}: `{room}` does not use `{used}`'
        cyclic = [room for room in graph if room in reachable(graph, room)]
        if cyclic:
            yield f'{place}: a cycle runs through {", ".join(sorted(cyclic))}'
            continue
        wanted = reduction(graph)
        for user, used in sorted(wanted - drawn):
            yield f'{place}: the drawing lacks {user} --> {used}'
        for user, used in sorted(drawn - wanted):
            yield f'{place}: the drawing has {user} --> {used} too much'


def print_arrows(root):
    page = sections((root / PAGE).read_text(encoding='utf-8'))
    for place in page:
        graph = arrows(root, place)
        print(f'### `{place}/`\n')
        for room in sorted(graph):
            used = ', '.join(f'`{each}`' for each in sorted(graph[room]))
            print(f'| `{room}` | {used or "—"} |')
        print('\n```mermaid\nflowchart TD')
        own = place.rsplit('/', maxsplit=1)[-1]
        for user, used in sorted(reduction(graph)):
            print(f'  {own if user == "." else user} --> '
                  f'{own if used == "." else used}')
        print('```\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    parser.add_argument('--root', type=pathlib.Path, default=pathlib.Path(
        os.path.realpath(__file__)).parent.parent.parent)
    parser.add_argument('--print', action='store_true')
    options = parser.parse_args()
    if options.print:
        print_arrows(options.root)
        return 0
    found = list(differences(options.root))
    print('\n'.join(found) if found else 'The page and the includes agree.')
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
