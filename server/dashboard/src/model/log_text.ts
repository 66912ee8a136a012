// The text of a member's log as it grows: a bounded number of whole lines.

/** Bytes of protobuf's JSON. */
export function decodeBytes(data: string): Uint8Array {
  const text = atob(data);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; ++i) bytes[i] = text.charCodeAt(i);
  return bytes;
}

/** Escape sequences of terminals and other control characters are no text. */
export function plain(text: string): string {
  return text
    .replace(/\x1b\[[0-?]*[ -/]*[@-~]/g, '')
    .replace(/\x1b[@-Z\\-_]/g, '')
    .replace(/\r\n/g, '\n')
    .replace(
      /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/g,
      '·',
    )
    .replace(/\r/g, '\n');
}

const LONGEST = 4000;

export class LogText {
  // Characters may be cut in two.
  private readonly decoder = new TextDecoder();
  private partial = '';
  lines: string[] = [];
  /** Number of lines before `lines` that are gone. */
  dropped = 0;

  constructor(private readonly most = 5000) {}

  push(bytes: Uint8Array): void {
    const text = this.decoder.decode(bytes, { stream: true });
    const parts = plain(this.partial + text).split('\n');
    this.partial = (parts.pop() ?? '').slice(-LONGEST * 4);
    for (const part of parts) {
      this.lines.push(
        part.length > LONGEST ? `${part.slice(0, LONGEST)} …` : part,
      );
    }
    const surplus = this.lines.length - this.most;
    if (surplus > 0) {
      this.lines = this.lines.slice(surplus);
      this.dropped += surplus;
    }
  }

  /** All lines, the one that has no end yet included. */
  all(): string[] {
    return this.partial ? [...this.lines, this.partial] : this.lines;
  }
}
