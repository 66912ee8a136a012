// Server-sent events out of the bytes of a response.

export interface SseMessage {
  id: string;
  event: string;
  data: string;
}

/** Longest line that is taken; a stream with a longer one is broken. */
const MAX_LINE = 16 * 1024 * 1024;

export class SseParser {
  private rest = '';
  /** Length of the beginning of `rest` that has no end of line. */
  private searched = 0;
  private data: string[] = [];
  private event = '';
  /** Id of the last message that had one. */
  lastId = '';

  /** The messages that are complete with `text`. */
  push(text: string): SseMessage[] {
    const messages: SseMessage[] = [];
    this.rest += text;
    let begin = 0;
    for (;;) {
      const end = lineEnd(this.rest, Math.max(begin, this.searched));
      if (end < 0) break;
      this.searched = 0;
      const line = this.rest.slice(begin, end);
      // "\r\n" is one end of line.
      begin =
        this.rest[end] === '\r' && this.rest[end + 1] === '\n'
          ? end + 2
          : end + 1;
      this.line(line, messages);
    }
    this.rest = this.rest.slice(begin);
    // The last character may be half of a "\r\n".
    this.searched = Math.max(0, this.rest.length - 1);
    if (this.rest.length > MAX_LINE)
      throw new Error('the server sent too long a line');
    return messages;
  }

  private line(line: string, messages: SseMessage[]): void {
    if (line === '') {
      if (this.data.length > 0) {
        messages.push({
          id: this.lastId,
          event: this.event,
          data: this.data.join('\n'),
        });
      }
      this.data = [];
      this.event = '';
      return;
    }
    const colon = line.indexOf(':');
    if (colon === 0) return;
    const field = colon < 0 ? line : line.slice(0, colon);
    let value = colon < 0 ? '' : line.slice(colon + 1);
    if (value.startsWith(' ')) value = value.slice(1);
    if (field === 'data') this.data.push(value);
    else if (field === 'event') this.event = value;
    else if (field === 'id' && !value.includes('\0')) this.lastId = value;
  }
}

/** End of the line that begins at `begin`; -1 if it is not in `text`. */
function lineEnd(text: string, begin: number): number {
  for (let i = begin; i < text.length; ++i) {
    if (text[i] === '\n') return i;
    // A "\r" at the very end may be half of a "\r\n".
    if (text[i] === '\r') return i + 1 < text.length ? i : -1;
  }
  return -1;
}
