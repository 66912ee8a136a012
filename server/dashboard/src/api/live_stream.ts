import { denied } from './client';
import { lost, reached, returns } from './connection';
import { errorOf } from './errors';
import {
  LIVE_START,
  next,
  type LiveEffect,
  type LiveInput,
  type LiveState,
} from './live_state';
import { SseParser, type SseMessage } from './sse';

/** The server sends something every 15 seconds, a comment if nothing else. */
const SILENCE_MS = 45000;

export interface LiveStreamOptions {
  /** The address to connect to, given the id of the last message. */
  address: (lastId: string) => string;
  onMessage: (message: SseMessage) => void;
  /** Whether a stream that the server closes now has told everything. */
  isOver: () => boolean;
  onState: (state: LiveState) => void;
  /** The resource may appear later: NOT_FOUND is asked again. */
  mayCome?: boolean;
}

/**
 * Reads server-sent events and reconnects with back-off until the end, always
 * from the last message on. EventSource does not tell why a connection failed,
 * hence fetch. Nothing is read while the page is hidden.
 */
export class LiveStream {
  private state: LiveState = LIVE_START;
  private lastId = '';
  private abort: AbortController | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private readonly unfollow: () => void;
  private readonly onVisibility = () =>
    this.input({ kind: document.hidden ? 'hidden' : 'visible' });

  constructor(private readonly options: LiveStreamOptions) {
    this.unfollow = returns.follow(() => this.input({ kind: 'timer' }));
    document.addEventListener('visibilitychange', this.onVisibility);
  }

  start(): void {
    this.input({ kind: 'start' });
  }

  stop(): void {
    this.unfollow();
    document.removeEventListener('visibilitychange', this.onVisibility);
    this.disconnect();
    this.state = { ...this.state, phase: 'ended' };
  }

  private input(input: LiveInput): void {
    const [state, effect] = next(this.state, input);
    if (state !== this.state) {
      this.state = state;
      this.options.onState(state);
    }
    this.apply(effect);
  }

  private apply(effect: LiveEffect): void {
    if (effect === 'connect') void this.connect();
    else if (effect === 'disconnect') this.disconnect();
    else if (effect === 'schedule') {
      clearTimeout(this.timer);
      this.timer = setTimeout(
        () => this.input({ kind: 'timer' }),
        this.state.delay,
      );
    }
  }

  private disconnect(): void {
    clearTimeout(this.timer);
    this.abort?.abort();
    this.abort = null;
  }

  private async connect(): Promise<void> {
    this.disconnect();
    const abort = new AbortController();
    this.abort = abort;
    try {
      const headers: Record<string, string> = { Accept: 'text/event-stream' };
      if (this.lastId) headers['Last-Event-ID'] = this.lastId;
      const response = await fetch(this.options.address(this.lastId), {
        headers,
        credentials: 'same-origin',
        cache: 'no-store',
        signal: abort.signal,
      });
      if (!response.ok || !response.body) {
        this.failed(response.status, await response.text());
        return;
      }
      reached();
      this.input({ kind: 'opened' });
      await this.read(response.body, abort);
      if (abort.signal.aborted || this.state.phase !== 'live') return;
      this.closed('the server closed the stream');
    } catch (error) {
      if (abort.signal.aborted) return;
      if (!this.options.isOver()) lost();
      this.closed(error instanceof Error ? error.message : String(error));
    }
  }

  private closed(reason: string): void {
    if (this.options.isOver()) this.input({ kind: 'finished' });
    else this.input({ kind: 'broken', reason, random: Math.random() });
  }

  private failed(status: number, text: string): void {
    let body: unknown = {};
    try {
      body = JSON.parse(text);
    } catch {
      // No google.rpc.Status: the status alone has to do.
    }
    const error = errorOf(status, body);
    if (status === 401) denied();
    const again =
      [408, 429].includes(status) || (status === 404 && this.options.mayCome);
    if (status >= 400 && status < 500 && !again) {
      this.input({ kind: 'refused', reason: error.message });
    } else {
      this.input({
        kind: 'broken',
        reason: error.message,
        random: Math.random(),
      });
    }
  }

  /** The server's last word: {} where it has told everything, else an error. */
  private end(data: string): void {
    const { error } = JSON.parse(data) as {
      error?: { code?: number; message?: string };
    };
    if (!error) this.input({ kind: 'finished' });
    else this.failed(error.code ?? 500, data);
  }

  private async read(
    body: ReadableStream<Uint8Array>,
    abort: AbortController,
  ): Promise<void> {
    const reader = body.getReader();
    const decoder = new TextDecoder();
    const parser = new SseParser();
    for (;;) {
      const silence = setTimeout(() => void reader.cancel(), SILENCE_MS);
      const { done, value } = await reader.read();
      clearTimeout(silence);
      if (done || abort.signal.aborted) return;
      for (const message of parser.push(
        decoder.decode(value, { stream: true }),
      )) {
        if (message.id) this.lastId = message.id;
        if (message.event === 'end') return this.end(message.data);
        this.input({ kind: 'message' });
        this.options.onMessage(message);
      }
    }
  }
}
