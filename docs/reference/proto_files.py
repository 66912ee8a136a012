"""The API's descriptors with their comments, from protoc."""

import pathlib
import subprocess
import tempfile

from google.protobuf import descriptor_pb2

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    _Field.TYPE_DOUBLE: 'double', _Field.TYPE_FLOAT: 'float',
    _Field.TYPE_INT64: 'int64', _Field.TYPE_UINT64: 'uint64',
    _Field.TYPE_INT32: 'int32', _Field.TYPE_UINT32: 'uint32',
    _Field.TYPE_BOOL: 'bool', _Field.TYPE_STRING: 'string',
    _Field.TYPE_BYTES: 'bytes',
}


class Named:
    """A message, enum, service or one of their parts, with its comment."""

    def __init__(self, proto, full_name, comment, file):
        self.proto = proto
        self.full_name = full_name
        self.name = proto.name
        self.comment = comment
        self.file = file
        self.parts = []  # fields, values or rpcs


class Field(Named):

    def __init__(self, proto, full_name, comment, file, message):
        super().__init__(proto, full_name, comment, file)
        self.repeated = proto.label == _Field.LABEL_REPEATED
        self.optional = proto.proto3_optional
        self.type_name = proto.type_name.lstrip('.')
        self.scalar = _SCALARS.get(proto.type)
        self.oneof = ''
        if proto.HasField('oneof_index') and not proto.proto3_optional:
            self.oneof = message.oneof_decl[proto.oneof_index].name


class Api:
    """All that proto/comera/v1 declares; messages and enums by full name."""

    def __init__(self, root):
        folder = pathlib.Path(root) / 'proto'
        self.files = sorted(str(p.relative_to(folder)) for p in
                            (folder / 'comera' / 'v1').glob('*.proto'))
        with tempfile.NamedTemporaryFile() as output:
            subprocess.run(
                ['/usr/bin/protoc', f'-I{folder}', '-I/usr/include',
                 '--include_source_info', '--include_imports',
                 f'--descriptor_set_out={output.name}'] + self.files,
                check=True)
            descriptors = descriptor_pb2.FileDescriptorSet.FromString(
                output.read())
        self.messages, self.enums, self.services = {}, {}, []
        self.file_comments = {}
        self.map_entries = {}
        for file in descriptors.file:
            if file.name in self.files:
                self._read_file(file)

    def _read_file(self, file):
        comments = {tuple(location.path): location.leading_comments.strip('\n')
                    for location in file.source_code_info.location}
        # The file's own comment stands before `syntax`.
        self.file_comments[file.name] = clean(comments.get((12,), ''))
        for number, message in enumerate(file.message_type):
            self._read_message(file, message, file.package, (4, number),
                               comments)
        for number, enum in enumerate(file.enum_type):
            self._read_enum(file, enum, file.package, (5, number), comments)
        for number, proto in enumerate(file.service):
            path = (6, number)
            service = Named(proto, f'{file.package}.{proto.name}',
                            clean(comments.get(path, '')), file.name)
            for index, rpc in enumerate(proto.method):
                service.parts.append(Named(
                    rpc, f'{service.full_name}.{rpc.name}',
                    clean(comments.get(path + (2, index), '')), file.name))
            self.services.append(service)

    def _read_message(self, file, proto, scope, path, comments):
        full_name = f'{scope}.{proto.name}'
        message = Named(proto, full_name, clean(comments.get(path, '')),
                        file.name)
        for index, field in enumerate(proto.field):
            message.parts.append(Field(
                field, f'{full_name}.{field.name}',
                clean(comments.get(path + (2, index), '')), file.name, proto))
        if proto.options.map_entry:
            self.map_entries[full_name] = message
            return
        self.messages[full_name] = message
        for index, nested in enumerate(proto.nested_type):
            self._read_message(file, nested, full_name, path + (3, index),
                               comments)
        for index, enum in enumerate(proto.enum_type):
            self._read_enum(file, enum, full_name, path + (4, index), comments)

    def _read_enum(self, file, proto, scope, path, comments):
        full_name = f'{scope}.{proto.name}'
        enum = Named(proto, full_name, clean(comments.get(path, '')),
                     file.name)
        for index, value in enumerate(proto.value):
            enum.parts.append(Named(
                value, f'{full_name}.{value.name}',
                clean(comments.get(path + (2, index), '')), file.name))
        self.enums[full_name] = enum


def clean(comment):
    """One line a paragraph; lines that rule sections off go."""
    lines = [line.strip() for line in comment.split('\n')]
    paragraphs, current = [], []
    for line in lines + ['']:
        if line.startswith('----'):
            continue
        if line:
            current.append(line)
        elif current:
            paragraphs.append(' '.join(current))
            current = []
    return '\n\n'.join(paragraphs)


def cell(text):
    """For a cell of a table."""
    return text.replace('\n\n', ' ').replace('|', '\\|')
