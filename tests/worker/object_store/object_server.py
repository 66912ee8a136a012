#!/usr/bin/env python3
"""An HTTP server with objects and with the faults that tests ask for.

    object_server.py FOLDER [CERTIFICATE KEY]

Prints its port. Serves the files of FOLDER with strong ETags and byte ranges.
The first part of a path may be the name of a fault, with its argument:

    /cut-N/FILE       ends the connection after N bytes of each answer
    /busy-N/FILE      answers the first N requests with 503
    /stall-N/FILE     sends N bytes and then nothing
    /norange/FILE     ignores ranges
    /weak/FILE        has weak ETags
    /bare/FILE        has neither ETag nor Last-Modified
    /sizeless/FILE    tells no size
    /changing/FILE    has another ETag at each request
    /code-N/FILE      answers with N
    /to-BASE64/FILE   redirects to the URL
    /flood/FILE       redirects with a body of 16 MiB

FOLDER/requests lists the requests, one a line: method, path, Range, If-Match.
"""

import base64
import hashlib
import http.server
import pathlib
import ssl
import sys
import threading

SEEN = {}
LOCK = threading.Lock()
FOLDER = pathlib.Path(sys.argv[1])


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def log_message(self, *args):
        pass

    def answer(self, code, body=b'', headers=()):
        self.send_response(code)
        self.send_header('Content-Length', str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        if self.command != 'HEAD':
            self.wfile.write(body)

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        path = self.path.split('?')[0]
        with LOCK:
            with open(FOLDER / 'requests', 'a', encoding='utf-8') as log:
                print(self.command, path, self.headers.get('Range', '-'),
                      self.headers.get('If-Match', '-'), file=log)
            SEEN[path] = SEEN.get(path, 0) + 1
            count = SEEN[path]
        first, _, rest = path[1:].partition('/')
        fault, _, argument = first.partition('-')
        if fault == 'busy' and count <= int(argument):
            self.answer(503, b'<Error>busy</Error>')
            return
        if fault == 'code':
            self.answer(int(argument), b'not today')
            return
        if fault == 'to':
            self.answer(302, b'elsewhere', [
                ('Location', base64.urlsafe_b64decode(argument + '==').decode())])
            return
        if fault == 'flood':
            self.answer(302, b'x' * (16 << 20),
                        [('Location', 'https://127.0.0.1/')])
            return
        known = ('cut', 'busy', 'stall', 'norange', 'weak', 'bare', 'sizeless',
                 'changing')
        file = FOLDER / (rest if fault in known else path[1:])
        if not file.is_file():
            self.answer(404, b'no such file')
            return
        self.serve(file.read_bytes(), fault, argument, count)

    def serve(self, data, fault, argument, count):
        etag = '"%s"' % hashlib.sha1(data).hexdigest()
        if fault == 'changing':
            etag = '"%d"' % count
        if fault == 'weak':
            etag = 'W/' + etag
        wanted = self.headers.get('If-Match')
        if wanted not in (None, etag):
            self.answer(412)
            return
        begin = 0
        span = self.headers.get('Range', '')
        ranged = span.startswith('bytes=') and fault != 'norange'
        if ranged:
            begin = int(span[len('bytes='):].split('-')[0])
            if begin >= len(data):
                self.answer(416)
                return
        body = data[begin:]
        self.send_response(206 if ranged else 200)
        if fault == 'sizeless':
            self.send_header('Connection', 'close')
        else:
            self.send_header('Content-Length', str(len(body)))
        if fault != 'bare':
            self.send_header('ETag', etag)
            self.send_header('Last-Modified', 'Mon, 01 Jan 2024 00:00:00 GMT')
        if ranged:
            self.send_header('Content-Range', 'bytes %d-%d/%d' % (
                begin, len(data) - 1, len(data)))
        self.end_headers()
        if self.command == 'HEAD':
            return
        if fault not in ('cut', 'stall'):
            self.wfile.write(body)
            return
        self.wfile.write(body[:int(argument)])
        self.wfile.flush()
        if fault == 'stall':
            # Until the client gives up.
            self.rfile.read(1)
        self.close_connection = True


def main():
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
    server.daemon_threads = True
    if len(sys.argv) > 3:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(sys.argv[2], sys.argv[3])
        server.socket = context.wrap_socket(server.socket, server_side=True)
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == '__main__':
    main()
