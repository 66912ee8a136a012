import { send } from './client';
import { ApiError, errorOf } from './errors';
import { SseParser } from './sse';
import type { GenerateResponse } from './types';

export interface TextRequest {
  prompt: string;
  maxTokens: number;
  temperature: number;
}

/**
 * Lets a worker continue a text with a language model, and hands over every piece
 * of what it adds. Throws an ApiError, also where the text breaks off.
 */
export async function generateText(
  model: string,
  request: TextRequest,
  onPiece: (piece: GenerateResponse) => void,
  signal: AbortSignal,
): Promise<void> {
  const response = await send(`/v1/${model}:generate`, {
    method: 'POST',
    body: request,
    headers: { Accept: 'text/event-stream' },
    signal,
  });
  if (!response.ok || !response.body) {
    const text = await response.text();
    let body: unknown = {};
    try {
      body = JSON.parse(text);
    } catch {
      // A proxy's page says no more than the status does.
    }
    throw errorOf(response.status, body);
  }
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  const parser = new SseParser();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    for (const { event, data } of parser.push(
      decoder.decode(value, { stream: true }),
    )) {
      const message: unknown = JSON.parse(data);
      if (event === 'message') onPiece(message as GenerateResponse);
      if (event !== 'end') continue;
      // Empty, or why the text ends early.
      if (Object.keys(message as object).length > 0)
        throw errorOf(response.status, message);
      return;
    }
  }
  throw new ApiError(0, 'The text broke off: the connection was lost.');
}
