import { Store } from '../model/store';
import { lost, reached } from './connection';
import { ApiError, errorOf } from './errors';

export interface Session {
  /** The server wants to know who this is. */
  needed: boolean;
  /** Rises with every login, so that pages load anew. */
  version: number;
}

export const session = new Store<Session>({ needed: false, version: 0 });

export function denied(): void {
  if (!session.value.needed) session.set({ ...session.value, needed: true });
}

interface Call {
  method?: string;
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

/** A response with any status but those of a server that is away. */
export async function send(path: string, call: Call = {}): Promise<Response> {
  const headers: Record<string, string> = {
    Accept: 'application/json',
    ...call.headers,
  };
  const init: RequestInit = {
    method: call.method ?? 'GET',
    headers,
    credentials: 'same-origin',
    cache: 'no-store',
    signal: call.signal ?? null,
  };
  if (call.body !== undefined) {
    headers['Content-Type'] = 'application/json';
    init.body = JSON.stringify(call.body);
  }
  let response: Response;
  try {
    response = await fetch(path, init);
  } catch (error) {
    if (call.signal?.aborted) throw error;
    lost();
    throw new ApiError(0, 'The coordinator cannot be reached.');
  }
  if (response.status === 502 || response.status === 504) lost();
  else reached();
  if (response.status === 401) denied();
  return response;
}

async function json(response: Response): Promise<unknown> {
  const text = await response.text();
  if (text === '') return {};
  try {
    return JSON.parse(text);
  } catch {
    return { message: text.slice(0, 500) };
  }
}

export async function request<T>(path: string, call: Call = {}): Promise<T> {
  const response = await send(path, call);
  const body = await json(response);
  if (!response.ok) throw errorOf(response.status, body);
  return body as T;
}

export function post<T>(path: string, body: unknown = {}): Promise<T> {
  return request<T>(path, { method: 'POST', body });
}

export interface Versioned<T> {
  value: T;
  etag: string;
}

/** GET that costs nothing when nothing has changed: then it is `known`. */
export async function getIfChanged<T>(
  path: string,
  known: Versioned<T> | null,
  signal?: AbortSignal,
): Promise<Versioned<T>> {
  const headers: Record<string, string> = {};
  if (known?.etag) headers['If-None-Match'] = known.etag;
  const response = await send(path, { headers, ...(signal ? { signal } : {}) });
  if (response.status === 304 && known) return known;
  const body = await json(response);
  if (!response.ok) throw errorOf(response.status, body);
  return { value: body as T, etag: response.headers.get('ETag') ?? '' };
}

/** The server answers with a cookie that scripts cannot read. */
export async function login(token: string): Promise<void> {
  await request('/v1/session', { method: 'POST', body: { token } });
  session.set({ needed: false, version: session.value.version + 1 });
}

/** The issuer at which browsers can sign in; empty: there is none. */
export async function issuer(): Promise<string> {
  return (await request<{ issuer: string }>('/v1/sso')).issuer;
}

export async function logout(): Promise<void> {
  await request('/v1/session', { method: 'DELETE' });
  session.set({ needed: true, version: session.value.version + 1 });
}
